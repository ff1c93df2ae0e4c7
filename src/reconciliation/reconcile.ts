/**
 * The daily reconciliation: checks that no accepted mail is missing, for the days that are due. differences.ts names
 * the differences that it reports.
 *
 * A day of a project is due an hour after its end, again while its mail has not ended, and when the walk over the
 * queue finds a row that contradicts its recipient. Several processes may check at once: each claims days that no
 * other process has claimed, and other processes take over the day of a process that dies. The caller may pause or
 * stop between two steps.
 */
import {
  addOutcomes,
  describeDifference,
  type Difference,
  DIFFERENCES,
  NO_OUTCOMES,
  compareOutcomes,
  type Outcomes,
  sortDifferences,
} from './differences.ts';
import { ENVIRONMENTS } from '../core/scope.ts';
import { DayFindings } from './day-findings.ts';
import type { OperatorEvents } from '../core/operator-events.ts';
import type { Database } from '../database/database.ts';
import {
  claimQueueWalk,
  type QueueWalkStep,
  saveQueueWalked,
  walkQueueStep,
} from './queue-walk-store.ts';
import {
  countOutcomes,
  findDayStart,
  type OutcomeStep,
  readCountedOutcomes,
} from './outcome-store.ts';
import {
  deleteOldReconciledDays,
  listDifferences,
  saveFinished,
  type ReconciledDay,
} from './day-store.ts';
import {
  scheduleDay,
  claimDay,
  type ClaimedDay,
  type DayStep,
  firstIdOfDay,
  renewClaim,
  scheduleNextDay,
  readAccepted,
  readRemoved,
  saveDay,
  saveRemoved,
  walkDayStep,
} from './reconciliation-store.ts';
import { QUEUE_START, type QueueCursor } from '../delivery/queue-control/change-store.ts';

export type ReconcileContext = {
  db: Database;
  operatorEvents: OperatorEvents;
  /**
   * Pauses between two steps.
   * @returns whether to continue
   */
  pauseBetweenSteps: () => Promise<boolean>;
};

type ReconcileScope = {
  /** null: all projects. */
  projectId?: string | null;
  walksQueue?: boolean;
};

/** Renews the claim of ten minutes in time, even with slow steps. */
const RENEW_EVERY_STEPS = 20;
const DELETE_BATCH = 1_000;

export async function reconcile(
  context: ReconcileContext,
  { projectId = null, walksQueue = false }: ReconcileScope = {},
): Promise<void> {
  const { db, pauseBetweenSteps } = context;
  while ((await scheduleNextDay(db)) !== null) if (!(await pauseBetweenSteps())) return;
  if (await claimQueueWalk(db, walksQueue)) await checkQueue(context);
  let hasChecked = false;
  for (;;) {
    const day = await claimDay(db, projectId);
    if (day === null) break;
    if (!(await checkDay(context, day))) return;
    hasChecked = true;
  }
  await deleteOldReconciledDays(db, DELETE_BATCH);
  if (projectId === null) await saveFinished(db, hasChecked);
}

/** Makes days due whose queue rows contradict their recipients. */
async function checkQueue({ db, pauseBetweenSteps }: ReconcileContext): Promise<void> {
  let from: QueueCursor | null = QUEUE_START;
  while (from !== null) {
    const step: QueueWalkStep = await walkQueueStep(db, from);
    for (const day of step.days) await scheduleDay(db, day);
    if (!(await pauseBetweenSteps())) return;
    from = step.next;
  }
  await saveQueueWalked(db);
}

/**
 * Compares the mail of a day with the counters, and stores the differences.
 * @returns false when it was left to the next run
 */
async function checkDay(context: ReconcileContext, day: ClaimedDay): Promise<boolean> {
  const { db } = context;
  const mayContinue = createContinue(context, day);
  const findings = await findProblems(db, day, mayContinue);
  if (findings === null) return false;
  const isCompared = day.isOver && day.isCounted;
  const accepted = isCompared ? await readAccepted(db, day) : null;
  const stored = isCompared ? await countEvents(db, day, mayContinue) : NO_OUTCOMES;
  if (stored === null) return false;
  const { isRemoved, isEarlierRemoved } = await readRemoved(db, day);
  if (isRemoved) {
    await saveRemoved(db, day);
  } else {
    const counted = isCompared ? await readCountedOutcomes(db, day) : NO_OUTCOMES;
    const outcomes = compareOutcomes({ counted, stored }, isEarlierRemoved);
    const differences = sortDifferences([...findings.differences(accepted), ...outcomes]);
    await saveDay(db, day, { counts: findings.counts, differences });
  }
  await reportProject(context, day.projectId);
  return true;
}

/**
 * Compares each email of the day with its recipients, queue rows and events.
 * @returns null when it was left to the next run
 */
async function findProblems(
  db: Database,
  day: ClaimedDay,
  mayContinue: () => Promise<boolean>,
): Promise<DayFindings | null> {
  const findings = new DayFindings();
  let after: string | null = firstIdOfDay(day);
  while (after !== null) {
    const step: DayStep = await walkDayStep(db, day, after);
    findings.add(step);
    after = step.next;
    if (after !== null && !(await mayContinue())) return null;
  }
  return findings;
}

/**
 * Returns a function that pauses between two steps and renews the claim in time. It returns whether to continue;
 * otherwise the day is left to the next run.
 */
function createContinue(
  { db, pauseBetweenSteps }: ReconcileContext,
  day: ClaimedDay,
): () => Promise<boolean> {
  let steps = 0;
  return async () => {
    const isContinuing = await pauseBetweenSteps();
    steps += 1;
    if (!isContinuing || steps % RENEW_EVERY_STEPS === 0) await renewClaim(db, day, !isContinuing);
    return isContinuing;
  };
}

/**
 * Counts the outcomes of the day from the events, for mail of any day.
 * @returns null when it was left to the next run
 */
async function countEvents(
  db: Database,
  { projectId, day }: ClaimedDay,
  mayContinue: () => Promise<boolean>,
): Promise<Outcomes | null> {
  let outcomes: Outcomes = NO_OUTCOMES;
  for (const environment of ENVIRONMENTS) {
    let place = await findDayStart(db, { projectId, environment }, day);
    while (place !== null) {
      const step: OutcomeStep = await countOutcomes(db, { projectId, environment, day }, place);
      outcomes = addOutcomes(outcomes, step.outcomes);
      place = step.next;
      if (place !== null && !(await mayContinue())) return null;
    }
  }
  return outcomes;
}

const REPORTED_DAYS_MAX = 3;

/** Opens or ends the condition of a project, by the stored results of its days. */
export async function reportProject(
  { db, operatorEvents }: Pick<ReconcileContext, 'db' | 'operatorEvents'>,
  projectId: string,
): Promise<void> {
  const condition = { type: 'reconciliation.difference', subject: projectId } as const;
  const days = await listDifferences(db, REPORTED_DAYS_MAX + 1, projectId);
  const [newest] = days;
  if (newest === undefined) return operatorEvents.clear(condition);
  const sentences = days.slice(0, REPORTED_DAYS_MAX).map(describeDay).join(' ');
  const more = days.length > REPORTED_DAYS_MAX ? ' There are more days.' : '';
  operatorEvents.raise({
    ...condition,
    message: `Mail of project ${newest.projectName} is not accounted for. ${sentences}${more}`,
    remedy: `${remedyFor(newest.differences)} \`letterhaus reconcile\` shows all of it, and checks again.`,
    details: {
      project_id: projectId,
      days: days.slice(0, REPORTED_DAYS_MAX).map(({ day, differences }) => ({ day, differences })),
    },
  });
}

function describeDay({ day, differences }: ReconciledDay): string {
  return `${day}: ${differences.map(describeDifference).join(' ')}`;
}

function remedyFor([first]: readonly Difference[]): string {
  return first === undefined ? '' : DIFFERENCES[first.kind].remedy;
}
