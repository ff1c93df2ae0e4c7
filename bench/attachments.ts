/**
 * Measures how fast a worker accepts emails with an attachment of 1 MB in base64, and how much memory a request takes
 * in it, as a multiple of the size of the request. The service runs a single worker, so that all requests are in the
 * same process.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { memoryOf, workersOf } from './parts/processes.ts';
import { DOMAINS, Rig } from './parts/rig.ts';
import { perSecond, type Rate, startCpu } from './rates.ts';

const ATTACHMENT_BYTES = 1024 * 1024;
const BODY_MB = (ATTACHMENT_BYTES * 4) / 3 / 1e6;
/** Concurrent requests. They fit into the worker's budget for one project (http/socket/bodies.ts). */
const CONNECTIONS = 32;
const WARM_UP = 2_000;
/** Time for a worker to become idle before it is measured. */
const CALM_MS = 3_000;

export type AttachmentFigures = {
  rates: Rate[];
  /** Peak memory of the worker above its idle size, per concurrent request, as a multiple of the request's size. */
  memory: number | null;
};

/** @param options.count emails in each round */
export async function measureAttachments(
  options: { rounds: number; count: number },
  say: (line: string) => void,
): Promise<AttachmentFigures> {
  await using rig = await Rig.start({ workers: 1, mxPort: 9, only: 'api' });
  // The first requests allocate memory that the worker keeps, so they are not measured.
  await acceptRound(rig, { count: WARM_UP, attachmentBytes: 0 });
  await delay(CALM_MS);
  const idle = worker(rig);
  const rates: Rate[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rates.push(await acceptRound(rig, { count: options.count, attachmentBytes: ATTACHMENT_BYTES }));
    say(`  ${Math.round(rates.at(-1)!.perSecond)}/s`);
  }
  const loaded = worker(rig);
  if (idle === null || loaded === null) return { rates, memory: null };
  const memory = (loaded.peakMb - idle.nowMb) / (CONNECTIONS * BODY_MB);
  say(`  idle ${Math.round(idle.nowMb)} MB, peak ${Math.round(loaded.peakMb)} MB`);
  return { rates, memory };
}

async function acceptRound(
  rig: Rig,
  { count, attachmentBytes }: { count: number; attachmentBytes: number },
): Promise<Rate> {
  const openBefore = await rig.open();
  const cpu = startCpu({ supervisor: rig.pid });
  const posted = await rig.post({
    count,
    htmlBytes: 2_048,
    attachmentBytes,
    connections: Math.min(CONNECTIONS, count),
    domains: DOMAINS,
    pauseMs: 0,
  });
  const spent = cpu(posted.use, count);
  const opened = (await rig.open()) - openBefore;
  if (opened !== count) throw new Error(`${count} emails got a 202, ${opened} were queued`);
  return {
    perSecond: perSecond(count, posted.endedMs - posted.startedMs),
    cpu: spent,
    messageBytes: null,
  };
}

function worker(rig: Rig) {
  const [pid = 0] = workersOf(rig.pid);
  return memoryOf(pid);
}
