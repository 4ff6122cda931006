vram fti model
vram fit
vram fit x --contxt 5
vram gpus --json=1
vram ledger extra
vram completion tcsh
