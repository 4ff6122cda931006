# SPDX-License-Identifier: MIT
"""Parts of docs/accuracy.md that are made by commands: between a line that names the maker and one that ends it."""


def rewrite(path, maker, lines):
    begin, end = f"<!-- made by {maker} -->\n", "<!-- end of what is made -->"
    with open(path, encoding="utf-8") as f:
        head, rest = f.read().split(begin, 1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(head + begin + "\n" + "\n".join(lines) + "\n\n" + end + rest.split(end, 1)[1])
