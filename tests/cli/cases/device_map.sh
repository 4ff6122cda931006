# 70 billion parameters in 16 bits are 131.4 GiB. On two cards of 24 GB device_map="auto" keeps room for the largest layer on
# the first only, leaves two thirds on the host and brings each layer to GPU 0 to compute it: its keys and values stay there.
# With 4 bits the loader of 5.17 counts its cards too small, and bitsandbytes refuses what would lie on the host.
vram fit llama-3.3-70b-instruct --gpu 2x4090 --device-map auto || echo "exit $?"
vram fit llama-3.3-70b-instruct --gpu 2x4090 --device-map auto --quantization bnb-4bit || echo "exit $?"
vram fit llama-3.3-70b-instruct --gpu 2x4090 | tail -n 3
vram fit llama-3.3-70b-instruct --gpu h100-sxm-80gb --gpu rtx-4090-24gb --gpu 2x24GiB --device-map balanced -c 1024
vram fit llama-3.3-70b-instruct --gpu 2x4090 --device-map auto --host-memory 64GiB --json | grep -A 12 '"host"'
