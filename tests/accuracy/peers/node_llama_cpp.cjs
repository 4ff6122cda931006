// SPDX-License-Identifier: MIT
// What node-llama-cpp measures of runs without allocating (as GgufInsights.estimateContextResourceRequirementsV2 does), or
// takes once a model is really loaded, on the virtual cards of setup.sh (CARDS of them): a JSON object a line on standard input, as compare.py writes them, one a line on
// standard output. Of a context it tells one figure, cache and compute buffer together.
const readline = require("node:readline");

const folder = process.argv[2];
const bindings = require(folder + "/llama-addon.node");
const types = {f32: 0, f16: 1, q4_0: 2, q8_0: 8, bf16: 30};

async function measured(run) {
    const model = new bindings.AddonModel(run.File, {noAlloc: !run.Loaded, gpuLayers: run.Layers, useMmap: false});
    if (!(await model.init()))
        return {error: "model"};
    const context = new bindings.AddonContext(model, {
        contextSize: run.Context, batchSize: run.Ubatch, sequences: run.Sequences, flashAttention: run.Flash,
        kvCacheKeyType: types[run.Keys], kvCacheValueType: types[run.Values]
    });
    let answer = {error: "context"};
    if (await context.init()) {
        const weights = model.getMemoryBreakdown(), rest = context.getMemoryBreakdown();
        answer = {cards: {weights: weights.gpuVram, context: rest.gpuVram}, host: {weights: weights.cpuRam, context: rest.cpuRam}};
    }
    await context.dispose();
    await model.dispose();
    return answer;
}

async function main() {
    bindings.setLogger(() => {});
    bindings.loadBackends(folder);
    await bindings.init();
    for await (const line of readline.createInterface({input: process.stdin}))
        console.log(JSON.stringify(await measured(JSON.parse(line)).catch((error) => ({error: String(error)}))));
}

main();
