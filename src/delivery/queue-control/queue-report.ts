/**
 * Builds the queue report of the API. By provider: waiting mail, state, and the limit that applies with its setting.
 * By project: waiting mail.
 *
 * The report leaves out why a provider is slowed or suspended, because the reason can quote a reply to another
 * organization's mail. `answers` contains replies to the caller's own mail.
 */
import type { Environment, Scope } from '../../core/scope.ts';
import { type ProviderWait, publicState, explainProviderWait } from '../shaping/provider-state.ts';
import type { Queryable } from '../../database/database.ts';
import { listProjects, type Project } from '../../accounts/projects/project-store.ts';
import { type StoredProviderState, readProviderStates } from '../shaping/provider-state-store.ts';
import {
  type PausedMail,
  readLastReplies,
  readPausedMail,
  type ProviderCounts,
  type QueueCounts,
  type QueueScope,
  readQueue,
} from './queue-report-store.ts';
import { nameInFile } from '../shaping/settings-file.ts';
import {
  type ExplainedLimit,
  explainLimits,
  type ShapingSettings,
  DEFAULT_SHAPING,
} from '../shaping/settings.ts';
import { SIMULATOR_PROVIDER } from '../attempt/simulator.ts';

export const QUEUE_LIMITS = [
  'hold',
  'suspension',
  'rate',
  'connections',
  'attempt',
  'retry',
  'turn',
] as const;

/** Why mail is on hold: an operator's change (change.ts), or the pause of its sending domain. */
export const HOLDERS = ['operator', 'pause'] as const;

const PROVIDERS_MAX = 100;
const REPLIES_MAX = 10;

export type QueueReader = {
  organizationId: string;
  /** True for a member, who sees all projects and both environments. A key sees only its own. */
  isMember: boolean;
  own: Scope;
  /** null: the whole organization, for members. */
  within: Scope | null;
};

type ReportContext = { db: Queryable; shaping: ShapingSettings };

export async function reportQueue(context: ReportContext, reader: QueueReader) {
  const { db } = context;
  const projects = await projectsOf(db, reader);
  const query = queryOf(reader, projects);
  const [queue, states] = await Promise.all([
    readQueue(db, { ...query, provider: null, limit: PROVIDERS_MAX }),
    readProviderStates(db),
  ]);
  const pausedMail = await readPausedMail(db, query, providersOnHold(queue.providers));
  const { shaping } = context;
  const names = new Map(projects.map(({ id, name }) => [id, name]));
  return {
    object: 'queue' as const,
    measured_at: queue.now.toISOString(),
    is_estimate: queue.isEstimate,
    ...countsToWire(queue.total, queue.now),
    providers: queue.providers.map((counts) =>
      providerToWire(counts, { states, now: queue.now, shaping, pausedMail }),
    ),
    has_more: queue.providerCount > queue.providers.length,
    projects: queue.projects.map(({ projectId, environment, ...counts }) => ({
      project_id: projectId,
      name: names.get(projectId) ?? '',
      environment,
      ...countsToWire(counts, queue.now),
    })),
  };
}

export async function reportProvider(
  context: ReportContext,
  reader: QueueReader,
  provider: string,
) {
  const { db, shaping } = context;
  const projects = await projectsOf(db, reader);
  const query = queryOf(reader, projects);
  const [queue, states, replies] = await Promise.all([
    readQueue(db, { ...query, provider, limit: 1 }),
    readProviderStates(db),
    readLastReplies(db, reader.own, { provider, limit: REPLIES_MAX }),
  ]);
  const { now, isEstimate, total } = queue;
  const counts = queue.providers[0] ?? { ...total, provider };
  const pausedMail = await readPausedMail(db, query, providersOnHold([counts]));
  return {
    object: 'queue_provider' as const,
    measured_at: now.toISOString(),
    is_estimate: isEstimate,
    ...providerToWire(counts, { states, now, shaping, pausedMail }),
    settings: settingsToWire(shaping, provider),
    answers: replies.map(({ at, emailId, address, attempts, smtp }) => ({
      at: at.toISOString(),
      email_id: emailId,
      recipient: address,
      attempts,
      code: smtp.code,
      enhanced_code: smtp.enhanced_code,
      message: smtp.message,
      mx: smtp.mx,
      ip: smtp.ip,
    })),
  };
}

function providersOnHold(providers: readonly ProviderCounts[]): string[] {
  return providers.flatMap(({ provider, held }) => (held > 0 ? provider : []));
}

type NamedProject = Pick<Project, 'id' | 'name'>;

async function projectsOf(db: Queryable, reader: QueueReader): Promise<NamedProject[]> {
  const all = await listProjects(db, reader.organizationId);
  return reader.isMember ? all : all.filter(({ id }) => id === reader.own.projectId);
}

function queryOf(
  { isMember, own, within }: QueueReader,
  projects: readonly NamedProject[],
): { projectIds: string[]; environment: Environment | null; within: QueueScope } {
  return {
    projectIds: projects.map(({ id }) => id),
    environment: isMember ? null : own.environment,
    within: within ?? { projectId: null, environment: null },
  };
}

function countsToWire(counts: QueueCounts, now: Date) {
  const { waiting, withWorkers, due, held, firstDueAt } = counts;
  const isDue = firstDueAt !== null && firstDueAt <= now;
  return {
    waiting,
    with_workers: withWorkers,
    due,
    held,
    oldest_due_at: isDue ? firstDueAt.toISOString() : null,
    next_due_at: firstDueAt?.toISOString() ?? null,
  };
}

type ReportFacts = {
  states: readonly StoredProviderState[];
  now: Date;
  shaping: ShapingSettings;
  pausedMail: readonly PausedMail[];
};

function providerToWire(counts: ProviderCounts, facts: ReportFacts) {
  const { states, now, shaping, pausedMail } = facts;
  const { provider } = counts;
  const hold = holdOf(counts, pausedMail);
  const state = states.find((one) => one.provider === provider) ?? null;
  const until = state?.forMs == null ? null : new Date(now.getTime() + state.forMs);
  return {
    provider,
    ...countsToWire(counts, now),
    state: state && publicState(state.state),
    state_until: until?.toISOString() ?? null,
    connections: state?.connectionsOpen ?? null,
    connections_max: state?.connectionsMax ?? null,
    held_by: hold.by,
    paused_domains: hold.domains,
    limit: bindingLimit(counts, { state, now, shaping, hold }),
  };
}

type Hold = { by: (typeof HOLDERS)[number][]; domains: string[] };

/** Mail on hold that is not of a paused domain was put there by an operator. */
function holdOf({ provider, held }: ProviderCounts, pausedMail: readonly PausedMail[]): Hold {
  if (held === 0) return { by: [], domains: [] };
  const found = pausedMail.find((one) => one.provider === provider);
  if (found === undefined || found.paused === 0) return { by: ['operator'], domains: [] };
  const isMixed = found.paused < found.seen;
  return { by: isMixed ? ['operator', 'pause'] : ['pause'], domains: found.domains };
}

function holdInWords({ by, domains }: Hold): string {
  if (domains.length === 0) return 'an operator put them on hold';
  const are = domains.length === 1 ? 'is' : 'are';
  const paused = `${domains.length === 1 ? 'domain' : 'domains'} ${domains.join(', ')} ${are} paused`;
  return by.includes('operator')
    ? `an operator put some on hold, and for others the sending ${paused}`
    : `the sending ${paused}`;
}

type Limit = {
  name: (typeof QUEUE_LIMITS)[number];
  message: string;
  setting: ReturnType<typeof settingToWire> | null;
};

/**
 * Returns the limit that needs an action or ends last: first a hold, then the provider's state, then the retry
 * schedule, then fair queueing. null: nothing waits.
 */
export function bindingLimit(
  counts: ProviderCounts,
  {
    state,
    now,
    shaping,
    hold,
  }: { state: StoredProviderState | null; now: Date; shaping: ShapingSettings; hold: Hold },
): Limit | null {
  const { provider, waiting, held, due, withWorkers, firstDueAt } = counts;
  if (waiting === 0) return null;
  if (held >= waiting) {
    const message = `All recipients are on hold: ${holdInWords(hold)}.`;
    return { name: 'hold', message, setting: null };
  }
  const wait = state && explainProviderWait(provider, state);
  if (wait)
    return {
      name: wait.limit,
      message: wait.message,
      setting: limitingSetting(wait, { provider, shaping, state: state.state }),
    };
  if (withWorkers > 0) {
    const message = `Workers are delivering ${withWorkers} of them.`;
    return { name: 'attempt', message, setting: null };
  }
  if (due === 0 && firstDueAt !== null && firstDueAt > now) {
    const message = `All recipients wait for their next attempt. The first is due at ${firstDueAt.toISOString()}.`;
    return { name: 'retry', message, setting: null };
  }
  const message =
    'Recipients are due. They are delivered in turn: by project, then the oldest first.';
  return { name: 'turn', message, setting: null };
}

function limitingSetting(
  { limit }: ProviderWait,
  {
    provider,
    shaping,
    state,
  }: { provider: string; shaping: ShapingSettings; state: StoredProviderState['state'] },
): Limit['setting'] {
  if (state === 'blocked') return null;
  const settings = settingsToWire(shaping, provider);
  const rate = state === 'full' ? 'messages_per_minute' : null;
  const name = { suspension: 'suspension.first_s', rate, connections: 'connections' }[limit];
  return settings.find((setting) => setting.name === name) ?? null;
}

function settingsToWire(shaping: ShapingSettings, provider: string) {
  // Test mail connects to no server, so no limits apply.
  if (provider === SIMULATOR_PROVIDER) return [];
  const limits = explainLimits(shaping, provider);
  return [
    ...Object.entries(limits).map(([setting, limit]) => settingToWire(setting, limit)),
    ...RULES.flatMap((section) => rulesToWire(section, shaping)),
  ];
}

function settingToWire(setting: string, { value, source, key }: ExplainedLimit) {
  const { name, factor } = nameInFile(setting);
  const path = key === null ? `default.${name}` : `providers.${key}.${name}`;
  return { name, value: value === null ? null : value / factor, source, path };
}

const RULES = ['suspension', 'recovery', 'uplink'] as const;

function rulesToWire(
  section: (typeof RULES)[number],
  shaping: ShapingSettings,
): ReturnType<typeof settingToWire>[] {
  const builtIn = new Map(Object.entries(DEFAULT_SHAPING[section]));
  return Object.entries(shaping[section]).map(([setting, value]) => {
    const { name, factor } = nameInFile(setting);
    const path = `${section}.${name}`;
    const source = value === builtIn.get(setting) ? 'built_in' : 'file';
    return { name: path, value: value / factor, source, path };
  });
}
