# SPDX-License-Identifier: MIT
# A server that refuses to start, with what follows from it; as JSON too.
cat > serve.log <<'END'
INFO 03-04 09:12:01 [api_server.py:1289] vLLM API server version 0.10.1
INFO 03-04 09:12:44 [gpu_model_runner.py:1801] Model loading took 14.9889 GiB and 31.2 seconds
ERROR 03-04 09:13:02 [core.py:586] EngineCore failed to start.
ERROR 03-04 09:13:02 [core.py:586] ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (5.99 GiB). Based on the available memory, the estimated maximum model length is 49056. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
Traceback (most recent call last):
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
END
vram explain serve.log
vram explain serve.log --json
