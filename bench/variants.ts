/**
 * Measures the rate at 2 KB with further features, in the same rounds as the plain rate: encrypted sessions, a webhook
 * for every delivery, and a receiving server with 20 ms latency.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Sink, type SinkOptions } from './parts/children.ts';
import { DOMAINS, Rig } from './parts/rig.ts';
import { endToEndRound, type Rate } from './rates.ts';

type Variant = {
  what: string;
  wanted: string;
  sink?: SinkOptions;
  domains?: readonly string[];
  /** Share of the default number of emails. */
  share?: number;
};

const VARIANTS: readonly Variant[] = [
  { what: 'plain', wanted: '' },
  { what: 'STARTTLS', wanted: '', sink: { tls: true } },
  { what: 'one webhook', wanted: '', sink: { webhooks: true } },
  {
    what: 'one provider, 20 ms away',
    wanted: '≥ 500',
    sink: { delayMs: 20 },
    domains: DOMAINS.slice(0, 1),
    share: 0.3,
  },
];

export type VariantRates = { what: string; wanted: string; rates: Rate[] };

type Running = Variant & { rig: Rig; sink: Sink; rates: Rate[] };

/** @param options.count emails in each round */
export async function measureVariants(
  options: { workers: number; rounds: number; count: number },
  say: (line: string) => void,
): Promise<VariantRates[]> {
  await using stack = new AsyncDisposableStack();
  const running: Running[] = [];
  for (const variant of VARIANTS) {
    const sink = stack.use(await Sink.start(variant.sink));
    const rig = stack.use(await Rig.start({ workers: options.workers, mxPort: sink.port }));
    if (sink.webhookPort !== null) await rig.addWebhook(sink.webhookPort);
    running.push({ ...variant, rig, sink, rates: [] });
  }
  // Round 0 warms up and is not counted.
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const one of running) {
      const rate = await runRound(one, options.count * (round === 0 ? 0.25 : 1));
      say(`  ${round === 0 ? 'warming up, ' : ''}${one.what}: ${Math.round(rate.perSecond)}/s`);
      if (round > 0) one.rates.push(rate);
    }
  }
  return running;
}

async function runRound({ rig, sink, share = 1, domains }: Running, count: number): Promise<Rate> {
  const before = await sink.totals();
  const load = { count: Math.ceil(count * share), htmlBytes: 2_048, ...(domains && { domains }) };
  const rate = await endToEndRound({ rig, sink }, load);
  if (sink.webhookPort !== null) await webhooksArrived(sink, before.webhooks + load.count);
  return rate;
}

const WEBHOOKS_WITHIN_MS = 60_000;

async function webhooksArrived(sink: Sink, wanted: number): Promise<void> {
  const until = performance.now() + WEBHOOKS_WITHIN_MS;
  for (;;) {
    const { webhooks } = await sink.totals();
    if (webhooks === wanted) return;
    if (webhooks > wanted) throw new Error(`${webhooks - wanted} webhooks came twice`);
    if (performance.now() > until) throw new Error(`${wanted - webhooks} webhooks never came`);
    await delay(10);
  }
}
