/** Measures accepting by SMTP and by HTTP in turn on one service, for the ratio. */
import { median, show } from './numbers.ts';
import { acceptRound, type Rate, type RateOptions, submissionRound } from './rates.ts';
import { Rig } from './parts/rig.ts';

export type BothRates = { submission: Rate[]; accept: Rate[] };

export async function measureBoth(
  load: RateOptions,
  { workers, rounds, say }: { workers: number; rounds: number; say: (line: string) => void },
): Promise<BothRates> {
  await using rig = await Rig.start({
    workers,
    mxPort: 9,
    only: 'api,inbound',
    env: { LETTERHAUS_SUBMISSION_PORTS: '0/tls', LETTERHAUS_SMTP_HOST: '127.0.0.1' },
  });
  const rates: BothRates = { submission: [], accept: [] };
  const warmUp = { ...load, count: Math.ceil(load.count / 4) };
  await acceptRound(rig, warmUp);
  await submissionRound(rig, warmUp);
  for (let round = 0; round < rounds; round += 1) {
    rates.accept.push(await acceptRound(rig, load));
    rates.submission.push(await submissionRound(rig, load));
    const [http, smtp] = [rates.accept, rates.submission].map((list) => list.at(-1)!.perSecond);
    say(`  accepted by HTTP ${show(http!)}/s, by SMTP ${show(smtp!)}/s`);
  }
  return rates;
}

/** Returns the SMTP rate of each round in percent of the median HTTP rate. */
export function sharesOf({ submission, accept }: BothRates): number[] {
  const ofHttp = median(accept.map((rate) => rate.perSecond));
  return submission.map((rate) => (rate.perSecond / ofHttp) * 100);
}
