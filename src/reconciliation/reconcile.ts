/**
 * The daily reconciliation that no accepted mail is missing: checks the days that are due and reports differences
 * (differences.ts).
 *
 * A day of a project is due an hour after its end, again while its mail has not ended, and when the walk over the
 * queue finds a row that contradicts its recipient. Several processes may check at once: each claims days that no
 * other process has claimed, and other processes take over the day of a process that dies. The caller may rest or
 * stop between two steps.
 */
import {
  addOutcomes,
  describeDifference,
  type Difference,
  DIFFERENCES,
  NO_OUTCOMES,
  outcomeDifferences,
  type Outcomes,
  sortDifferences,
} from './differences.ts';
import { ENVIRONMENTS } from '../core/scope.ts';
import type { OperatorEvents } from '../core/operator-events.ts';
import type { Database } from '../database/database.ts';
import { claimQueueWalk, noteQueueWalked, walkQueue } from './queue-store.ts';
import {
  countOutcomes,
  findBeginning,
  type OutcomeStep,
  readCountedOutcomes,
} from './outcome-store.ts';
import {
  forgetReconciledDays,
  listDifferences,
  noteFinished,
  type ReconciledDay,
} from './day-store.ts';
import {
  checkSoon,
  claimDay,
  type ClaimedDay,
  Findings,
  firstOfDay,
  keepDay,
  listNextDay,
  readAccepted,
  readRemoved,
  saveDay,
  saveRemoved,
  walkDay,
} from './reconciliation-store.ts';
import { QUEUE_START, type QueuePlace } from '../delivery/queue-control/change-store.ts';

export type ReconcileContext = {
  db: Database;
  operatorEvents: OperatorEvents;
  /** Called between two steps. @returns whether to continue */
  rest: () => Promise<boolean>;
};

type Scope = {
  /** null: all projects. */
  projectId?: string | null;
  walksQueue?: boolean;
};

/** Renews the claim of ten minutes in time, even with slow steps. */
const KEEP_EVERY_STEPS = 20;
const FORGET_BATCH = 1_000;

export async function reconcile(
  context: ReconcileContext,
  { projectId = null, walksQueue = false }: Scope = {},
): Promise<void> {
  const { db, rest } = context;
  while ((await listNextDay(db)) !== null) if (!(await rest())) return;
  if (await claimQueueWalk(db, walksQueue)) await findStrays(context);
  let isNews = false;
  for (;;) {
    const day = await claimDay(db, projectId);
    if (day === null) break;
    if (!(await checkDay(context, day))) return;
    isNews = true;
  }
  await forgetReconciledDays(db, FORGET_BATCH);
  if (projectId === null) await noteFinished(db, isNews);
}

/** Makes days due whose queue rows contradict their recipients. */
async function findStrays({ db, rest }: ReconcileContext): Promise<void> {
  let from: QueuePlace | null = QUEUE_START;
  while (from !== null) {
    const step: Awaited<ReturnType<typeof walkQueue>> = await walkQueue(db, from);
    for (const day of step.days) await checkSoon(db, day);
    if (!(await rest())) return;
    from = step.next;
  }
  await noteQueueWalked(db);
}

/** @returns false when it was left to the next run */
async function checkDay(context: ReconcileContext, day: ClaimedDay): Promise<boolean> {
  const { db } = context;
  const findings = new Findings();
  const mayGoOn = keeping(context, day);
  let after: string | null = firstOfDay(day);
  while (after !== null) {
    const step: Awaited<ReturnType<typeof walkDay>> = await walkDay(db, day, after);
    findings.add(step);
    after = step.next;
    if (after !== null && !(await mayGoOn())) return false;
  }
  const isCompared = day.isOver && day.isCounted;
  const accepted = isCompared ? await readAccepted(db, day) : null;
  const stored = isCompared ? await countEvents(context, day, mayGoOn) : NO_OUTCOMES;
  if (stored === null) return false;
  const { isRemoved, isEarlierRemoved } = await readRemoved(db, day);
  if (isRemoved) {
    await saveRemoved(db, day);
  } else {
    const counted = isCompared ? await readCountedOutcomes(db, day) : NO_OUTCOMES;
    const outcomes = outcomeDifferences({ counted, stored }, isEarlierRemoved);
    const differences = sortDifferences([...findings.differences(accepted), ...outcomes]);
    await saveDay(db, day, { counts: findings.counts, differences });
  }
  await reportProject(context, day.projectId);
  return true;
}

/** Rests, and renews the claim in time. @returns whether to continue; otherwise the day is left to the next run */
function keeping({ db, rest }: ReconcileContext, day: ClaimedDay): () => Promise<boolean> {
  let steps = 0;
  return async () => {
    const goesOn = await rest();
    steps += 1;
    if (!goesOn || steps % KEEP_EVERY_STEPS === 0) await keepDay(db, day, !goesOn);
    return goesOn;
  };
}

/**
 * Counts the outcomes of the day from the events, for mail of any day.
 * @returns null when it was left to the next run
 */
async function countEvents(
  { db }: ReconcileContext,
  { projectId, day }: ClaimedDay,
  mayGoOn: () => Promise<boolean>,
): Promise<Outcomes | null> {
  let outcomes: Outcomes = NO_OUTCOMES;
  for (const environment of ENVIRONMENTS) {
    let place = await findBeginning(db, { projectId, environment }, day);
    while (place !== null) {
      const step: OutcomeStep = await countOutcomes(db, { projectId, environment, day }, place);
      outcomes = addOutcomes(outcomes, step.outcomes);
      place = step.next;
      if (place !== null && !(await mayGoOn())) return null;
    }
  }
  return outcomes;
}

const NAMED_MAX = 3;

/** Opens or ends the condition of a project, by the stored results of its days. */
export async function reportProject(
  { db, operatorEvents }: Pick<ReconcileContext, 'db' | 'operatorEvents'>,
  projectId: string,
): Promise<void> {
  const condition = { type: 'reconciliation.difference', subject: projectId } as const;
  const days = await listDifferences(db, NAMED_MAX + 1, projectId);
  const [newest] = days;
  if (newest === undefined) return operatorEvents.clear(condition);
  const sentences = days.slice(0, NAMED_MAX).map(sentenceOf).join(' ');
  const more = days.length > NAMED_MAX ? ' There are more days.' : '';
  operatorEvents.raise({
    ...condition,
    message: `Mail of project ${newest.projectName} is not accounted for. ${sentences}${more}`,
    remedy: `${remedyOf(newest.differences)} \`letterhaus reconcile\` shows all of it, and checks again.`,
    details: {
      project_id: projectId,
      days: days.slice(0, NAMED_MAX).map(({ day, differences }) => ({ day, differences })),
    },
  });
}

function sentenceOf({ day, differences }: ReconciledDay): string {
  return `${day}: ${differences.map(describeDifference).join(' ')}`;
}

function remedyOf([first]: readonly Difference[]): string {
  return first === undefined ? '' : DIFFERENCES[first.kind].toDo;
}
