// SPDX-License-Identifier: MIT

// What gguf-parser-go says of runs: a JSON object a line on standard input, as compare.py writes them, and one a line on
// standard output with the bytes on the cards and on the host.
package main

import (
	"bufio"
	"encoding/json"
	"os"

	gp "github.com/gpustack/gguf-parser-go"
)

type run struct {
	File                                            string
	Context, Batch, Ubatch, Sequences, Layers       int
	Flash                                           bool
	Keys, Values                                    string
}

type memory struct {
	Weights uint64 `json:"weights"`
	Cache   uint64 `json:"cache"`
	Compute uint64 `json:"compute"`
}

var types = map[string]gp.GGMLType{"f16": gp.GGMLTypeF16, "f32": gp.GGMLTypeF32, "bf16": gp.GGMLTypeBF16,
	"q8_0": gp.GGMLTypeQ8_0, "q4_0": gp.GGMLTypeQ4_0}

func of(d gp.LLaMACppRunDeviceUsage) memory {
	return memory{uint64(d.Weight.Sum()), uint64(d.KVCache.Sum()), uint64(d.Computation.Sum())}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var r run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		file, err := gp.ParseGGUFFile(r.File)
		if err != nil {
			_ = out.Encode(map[string]string{"error": err.Error()})
			continue
		}
		options := []gp.GGUFRunEstimateOption{gp.WithLLaMACppContextSize(int32(r.Context)), gp.WithParallelSize(int32(r.Sequences)),
			gp.WithLLaMACppLogicalBatchSize(int32(r.Batch)), gp.WithLLaMACppPhysicalBatchSize(int32(r.Ubatch)),
			gp.WithLLaMACppOffloadLayers(uint64(r.Layers)), gp.WithLLaMACppCacheKeyType(types[r.Keys]),
			gp.WithLLaMACppCacheValueType(types[r.Values])}
		if r.Flash {
			options = append(options, gp.WithFlashAttention())
		}
		estimate := file.EstimateLLaMACppRun(options...)
		answer := map[string]memory{"host": of(estimate.Devices[0])}
		for i, d := range estimate.Devices[1:] {
			answer["CUDA"+string(rune('0'+i))] = of(d)
		}
		_ = out.Encode(answer)
	}
}
