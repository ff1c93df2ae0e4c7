/** Runs a target in a thread. main.ts watches the number of its current input. */
import { parentPort, workerData } from 'node:worker_threads';
import { runTarget } from './run.ts';
import { loadSamples } from './targets/report-samples.ts';
import { TARGETS } from './targets.ts';

type Work = {
  target: string;
  seed: number;
  from: number;
  runs: number;
  samples: string | null;
  current: Int32Array;
};

if (parentPort === null) throw new Error('This runs in a thread of test/fuzz/main.ts.');
const { target: name, current, samples, ...options } = workerData as Work;
if (samples !== null) loadSamples(samples);
const target = TARGETS.find((one) => one.name === name)!;
const onInput = (number: number): void => void Atomics.store(current, 0, number);
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- no window
parentPort.postMessage(await runTarget(target, { ...options, onInput }));
