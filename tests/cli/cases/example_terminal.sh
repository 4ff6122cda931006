COLUMNS=80 vram example --color always | sed 's/\x1b\[[0-9;]*m//g'
