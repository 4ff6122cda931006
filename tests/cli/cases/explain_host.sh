# SPDX-License-Identifier: MIT
# What the kernel, a cluster and a kernel of Triton print is no shortage of GPU memory.
cat > dmesg.txt <<'END'
[81263.118390] python invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_COMP|__GFP_ZERO), order=0, oom_score_adj=0
[81263.118555] Out of memory: Killed process 48211 (python) total-vm:91226112kB, anon-rss:61903872kB, file-rss:2048kB, shmem-rss:0kB, UID:1000 pgtables:122880kB oom_score_adj:0
END
vram explain dmesg.txt
printf '    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n' | vram explain
vram explain "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, Hardware limit: 101376. Reducing block sizes or num_stages may help."
