#!/bin/sh
# SPDX-License-Identifier: MIT
# Wrapper for `meson test --wrap`: valgrind for programs, scripts run as they are.
case $1 in
*python3* | *.py | *.sh | */sh | */bash) exec "$@" ;;
esac
exec valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,possible "$@"
