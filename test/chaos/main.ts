/**
 * `npm run chaos`: injects faults into a running service, ends them, and compares what was accepted
 * with what happened. Read it as: stage.ts (the processes) → director.ts (the course: faults.ts,
 * failpoints.ts, behaviours.ts, load.ts) → drain.ts → lossy-failover.ts → evidence.ts → excused.ts → ledger.ts.
 */
import { Arsenal } from './armed-failpoints.ts';
import { diceFor } from './random.ts';
import { Director } from './director.ts';
import { drain } from './drain.ts';
import { countDuplicates } from './duplicates.ts';
import { gather } from './evidence.ts';
import { groupBy } from './group.ts';
import { compare } from './ledger.ts';
import type { Evidence, Finding } from './ledger-types.ts';
import { type ChaosOptions, HELP, readOptions } from './options.ts';
import { titleOf } from './failpoints.ts';
import type { PointLine, PointsFor } from './node.ts';
import { rewindDatabase } from './lossy-failover.ts';
import { excuse, type Rewind } from './excused.ts';
import { NODES, openStage, type Stage } from './stage.ts';

/** Of each kind. */
const FINDINGS_SHOWN_MAX = 12;

const begunMs = performance.now();

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (options === 'help') {
    process.stdout.write(HELP);
    return 0;
  }
  if ('problem' in options) {
    process.stderr.write(`chaos: ${options.problem}\n`);
    return 2;
  }
  const interrupted = untilInterrupted();
  say(`seed ${options.seed}`);
  try {
    const { line, isGood } = await play(options, interrupted);
    process.stdout.write(`${line}\n`);
    return isGood ? 0 : 1;
  } catch (error) {
    if (isInterrupted) {
      process.stderr.write('chaos: interrupted\n');
      return 130;
    }
    process.stderr.write(`${(error as Error).stack}\n`);
    process.stdout.write(`chaos: seed ${options.seed}: ${(error as Error).message}: FAIL\n`);
    return 1;
  }
}

function say(line: string): void {
  const atS = ((performance.now() - begunMs) / 1_000).toFixed(1).padStart(6);
  process.stderr.write(`${atS} s  ${line}\n`);
}

async function play(
  options: ChaosOptions,
  interrupted: Promise<never>,
): Promise<{ line: string; isGood: boolean }> {
  const arsenal = new Arsenal(NODES, diceFor(options.seed, 'points'), options.minutes !== null);
  const onPoint = ({ failpoint, action, pid }: PointLine): void => {
    if (!arsenal.hit(failpoint, action)) return;
    const where = pid === undefined ? '' : ` (process ${pid})`;
    say(`failpoint ${titleOf(failpoint, action)}${where}, ${arsenal.unhit.size} to go`);
  };
  const pointsFor: PointsFor = (node, starts) => arsenal.pointsFor(node, starts);
  await using stage = await openStage({ onLine: say, onPoint }, pointsFor);
  const director = new Director(options, { stage, arsenal, say });
  let rewind: Rewind | null;
  try {
    rewind = await Promise.race([interrupted, takeCourse(director, stage)]);
  } finally {
    director.load.giveUp();
    await Promise.all(stage.nodes.map((node) => node.letGo()));
  }
  const gathered = await gather(stage, director);
  const { evidence, lost, repeated } =
    rewind === null ? { evidence: gathered, lost: 0, repeated: 0 } : excuse(gathered, rewind);
  const findings = [...compare(evidence), ...findingsOf(stage, arsenal)];
  const unmet = 'a fail-over that loses commits';
  if (lost === 0) findings.push({ kind: 'trouble_never_met', what: unmet });
  for (const [kind, ones] of groupBy(findings, (one) => one.kind)) {
    say(`${ones.length} times ${kind}:`);
    for (const { what } of ones.slice(0, FINDINGS_SHOWN_MAX)) say(`  ${what}`);
  }
  const isGood = findings.length === 0;
  const result = { evidence, director, arsenal, stage, findings, lost, repeated };
  return { line: lineOf(options, result), isGood };
}

/** @returns which commits were lost in the end; null: it did not come to that */
async function takeCourse(director: Director, stage: Stage): Promise<Rewind | null> {
  await director.run();
  say(`healing, ${director.load.accepted} emails accepted`);
  await director.heal();
  say('draining');
  if (!(await drain(stage, { say, restart: () => director.restartAll() }))) return null;
  const rewind = await rewindDatabase(stage, { load: director.load, say });
  await drain(stage, { say, restart: null });
  return rewind;
}

/** What no comparison shows: what was never reached or met, processes that broke by themselves. */
function findingsOf(stage: Stage, { unhit }: Arsenal): Finding[] {
  return [
    ...[...unhit].map((what): Finding => ({ kind: 'point_never_hit', what })),
    ...stage.receivers.unmet().map((what): Finding => ({ kind: 'trouble_never_met', what })),
    ...stage.nodes.flatMap(({ name, troubles }) =>
      troubles.map((line): Finding => ({ kind: 'broken_process', what: `${name}: ${line}` })),
    ),
  ];
}

type Result = {
  evidence: Evidence;
  director: Director;
  arsenal: Arsenal;
  stage: Stage;
  findings: Finding[];
  /** By the fail-over: emails, and copies that were made again. */
  lost: number;
  repeated: number;
};

function lineOf(
  { seed }: ChaosOptions,
  { evidence, director, arsenal, stage, findings, lost, repeated }: Result,
): string {
  const { emails, recipients, copies, events, disturbances } = evidence;
  const { extra, inDoubt, atDisturbances } = countDuplicates(evidence);
  const count = (number: number, what: string): string => `${number.toLocaleString('en')} ${what}`;
  const facts = [
    count(director.load.accepted, 'accepted'),
    count(emails.length, 'stored'),
    count(recipients.length, 'recipients'),
    count(copies.length, 'copies'),
    `${count(extra, 'duplicates')} (${inDoubt} in doubt, ${atDisturbances} at kills)`,
    count(events.length, 'events'),
    count(stage.hooks.count(), 'webhooks'),
    count(disturbances.length, 'disturbances'),
    `${lost} lost and ${repeated} repeated by the fail-over`,
    `${arsenal.total - arsenal.unhit.size}/${arsenal.total} failpoints`,
    `${Math.round((performance.now() - begunMs) / 1_000)} s`,
  ];
  const verdict = findings.length === 0 ? 'PASS' : `FAIL (${findings.length}): ${shown(findings)}`;
  return `chaos: seed ${seed}: ${facts.join(', ')}: ${verdict}`;
}

function shown(findings: readonly Finding[]): string {
  const some = findings.slice(0, 5).map(({ kind, what }) => `${kind} ${what}`);
  return some.join('; ').slice(0, 1_000);
}

let isInterrupted = false;

/**
 * Ctrl-C ends the services (test/support/service-process.ts); what was started is then taken down as after
 * any failure. Asked once more, it ends at once. @returns what rejects then
 */
function untilInterrupted(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  promise.catch(() => {});
  let count = 0;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      isInterrupted = true;
      count += 1;
      reject(new Error(`interrupted by ${signal}`));
      // The first one is repeated by the harness, for programs that have no handler.
      if (count > 2) process.exit(130);
    });
  }
  return promise;
}

// After an interruption faults may still be under way, on processes that have ended.
process.exit(await main());
