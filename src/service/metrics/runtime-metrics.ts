/**
 * Metrics of Node in a worker: how busy and how late its event loop is, its heap, and garbage collection. They say
 * whether a slow worker computes, collects garbage or waits for others.
 *
 * prom-client has default metrics for this. They are not used: they have no maximum over workers, they cannot be chosen
 * one by one, and half of them are the same figures as those of activity-metrics.ts under other names.
 */
import {
  constants,
  monitorEventLoopDelay,
  type PerformanceEntry,
  PerformanceObserver,
} from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { Gauge, Histogram, type Registry } from 'prom-client';

/** The timer that measures the lag runs this often, outside of JavaScript. Its delays include this interval. */
const LAG_RESOLUTION_MS = 20;
const NANOSECONDS = 1e9;
const GC_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1];

const GC_KINDS: Readonly<Record<number, string>> = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weak_callbacks',
};

/** Begins to measure. The timer and the observer keep no process alive, and end with it. */
export function addRuntime(registry: Registry): void {
  addEventLoop(registry);
  addHeap(registry);
  addGarbageCollection(registry);
}

/** All workers serve the same requests, so the worst of them counts. */
function addEventLoop(registry: Registry): void {
  const registers = [registry];
  const aggregator = 'max';
  let before = performance.eventLoopUtilization();
  new Gauge({
    name: 'letterhaus_event_loop_utilization_ratio',
    help: 'The share of time in which the event loop of the busiest worker worked, since the last scrape.',
    registers,
    aggregator,
    collect() {
      const now = performance.eventLoopUtilization();
      this.set(performance.eventLoopUtilization(now, before).utilization);
      before = now;
    },
  });
  const delays = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  delays.enable();
  new Gauge({
    name: 'letterhaus_event_loop_lag_seconds',
    help: 'How late the event loop of the latest worker was, since the last scrape: quantile 1 is the longest delay.',
    labelNames: ['quantile'],
    registers,
    aggregator,
    collect() {
      this.set({ quantile: '0.99' }, lagSeconds(delays.percentile(99)));
      this.set({ quantile: '1' }, lagSeconds(delays.max));
      delays.reset();
    },
  });
}

function lagSeconds(delayNs: number): number {
  return Math.max(0, delayNs / NANOSECONDS - LAG_RESOLUTION_MS / 1_000);
}

function addHeap(registry: Registry): void {
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  };
  gauge(
    'letterhaus_heap_used_bytes',
    'The JavaScript heaps of all workers.',
    () => getHeapStatistics().used_heap_size,
  );
  gauge(
    'letterhaus_heap_limit_bytes',
    'The limits of these heaps; a worker that reaches its limit ends.',
    () => getHeapStatistics().heap_size_limit,
  );
  gauge(
    'letterhaus_external_memory_bytes',
    'Buffers of all workers, outside of their heaps: messages, connections.',
    () => process.memoryUsage().external,
  );
}

/** Entries of the type `gc` have this detail. */
type GcEntry = PerformanceEntry & { detail: { kind: number } };

function addGarbageCollection(registry: Registry): void {
  const seconds = new Histogram({
    name: 'letterhaus_gc_seconds',
    help: 'Pauses of workers for garbage collection by kind.',
    labelNames: ['kind'],
    buckets: GC_SECONDS,
    registers: [registry],
  });
  for (const kind of Object.values(GC_KINDS)) seconds.zero({ kind });
  const observer = new PerformanceObserver((list) => {
    for (const { detail, duration } of list.getEntries() as GcEntry[]) {
      const kind = GC_KINDS[detail.kind];
      if (kind !== undefined) seconds.observe({ kind }, duration / 1_000);
    }
  });
  observer.observe({ entryTypes: ['gc'] });
}
