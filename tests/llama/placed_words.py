# SPDX-License-Identifier: MIT
"""Cases of data/llamacpp/virtual_device_cases.jsonl in the words of `measured`."""

WITH_VALUE = {"-c": "c", "-b": "b", "-ub": "ub", "-np": "np", "-ngl": "ngl", "-ctk": "ctk", "-ctv": "ctv", "-ts": "ts",
              "--n-cpu-moe": "ncmoe"}
FLAGS = {"--no-kv-offload": "kvo=0", "--cpu-moe": f"ncmoe={2**64 - 1}", "--no-repack": None}


def settings(case):
    """The words of MEASURED for llama.cpp's."""
    words, out = case["options"].split(), []
    while words:
        word = words.pop(0)
        if word == "-fa":
            out.append(f"fa={int(words.pop(0) == 'on')}")
        elif word in WITH_VALUE:
            out.append(f"{WITH_VALUE[word]}={words.pop(0)}")
        elif FLAGS[word] is not None:
            out.append(FLAGS[word])
    out.append(f"devices={int(case['env'].get('FAKE_NDEV', '1')) if case['device'] == 'virtual-cuda' else 0}")
    out += ["kvu=1"] if "KVU" in case["env"] else []
    out += [f"outputs={case['env']['N_OUTPUTS_MAX']}"] if "N_OUTPUTS_MAX" in case["env"] else []
    return out
