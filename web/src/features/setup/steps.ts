/**
 * The steps from nothing to live mail, and the progress of each as the service reports it. Steps of the installation
 * are for its owners; other members do not see them.
 */
import type {
  ApiKey,
  Doctor,
  DoctorFinding,
  Domain,
  EmailSummary,
  InstallationStatus,
  Variable,
  Webhook,
} from '../../../../sdk/src/api.ts';

export type StepId =
  | 'server'
  | 'key'
  | 'first_email'
  | 'domain'
  | 'webhook'
  | 'bounces'
  | 'backups'
  | 'alerts'
  | 'live_email';

/** `wrong`: something is in the way. `waits`: another step comes first. */
export type StepState = 'done' | 'todo' | 'wrong' | 'waits';

export type Step = {
  id: StepId;
  title: string;
  isOptional: boolean;
  state: StepState;
  /** A few words: what is there, or what is missing. */
  summary: string;
};

/** undefined: not read yet, or not for this member. */
export type Facts = {
  isOwner: boolean;
  doctor: Doctor | undefined;
  status: InstallationStatus | undefined;
  variables: readonly Variable[] | undefined;
  keys: readonly ApiKey[] | undefined;
  domains: readonly Domain[];
  webhooks: readonly Webhook[];
  testEmail: EmailSummary | undefined;
  /** One that arrived, or else the newest. */
  liveEmail: EmailSummary | undefined;
};

export function stepsOf(facts: Facts): Step[] {
  const all = [
    serverStep(facts),
    keyStep(facts),
    firstEmailStep(facts),
    domainStep(facts),
    webhookStep(facts),
    bouncesStep(facts),
    backupsStep(facts),
    alertsStep(facts),
    liveEmailStep(facts),
  ];
  return facts.isOwner ? all : all.filter(({ id }) => !OF_OWNERS.has(id));
}

const OF_OWNERS: ReadonlySet<StepId> = new Set<StepId>(['server', 'bounces', 'backups', 'alerts']);

/** Checks of the doctor that decide whether this machine reaches mail servers and is trusted by them. */
const SERVER_CHECKS = [
  'configuration',
  'host_name',
  'source_addresses',
  'outgoing_port_25',
  'relay',
  'reverse_dns',
  'helo_name',
  'block_lists',
  'resolver',
  'clock',
  'certificates',
];

/** Findings of a set of checks on all nodes. */
export function findingsOf(
  doctor: Doctor | undefined,
  checks: readonly string[] = SERVER_CHECKS,
): DoctorFinding[] {
  const all = doctor?.nodes.flatMap(({ findings }) => findings) ?? [];
  return all.filter(({ check }) => checks.includes(check));
}

function serverStep({ doctor }: Facts): Step {
  const step = { id: 'server', title: 'Server reaches the internet', isOptional: false } as const;
  const found = findingsOf(doctor);
  if (found.length === 0) return { ...step, state: 'todo', summary: 'Not checked yet' };
  const [red, yellow] = [count(found, 'red'), count(found, 'yellow')];
  if (red > 0) return { ...step, state: 'wrong', summary: `${things(red, 'problem')} to solve` };
  const advice = yellow > 0 ? `, ${things(yellow, 'piece')} of advice` : '';
  return { ...step, state: 'done', summary: `Port 25, DNS and names are right${advice}` };
}

function keyStep({ keys }: Facts): Step {
  const step = { id: 'key', title: 'API key', isOptional: false } as const;
  const used = keys?.find(({ last_used_at: at }) => at !== null);
  const key = used ?? keys?.[0];
  if (keys === undefined) return { ...step, state: 'waits', summary: 'For developers and above' };
  if (key === undefined) return { ...step, state: 'todo', summary: 'None yet' };
  return { ...step, state: 'done', summary: `${key.name}, ${used ? 'used' : 'not used yet'}` };
}

function firstEmailStep({ testEmail }: Facts): Step {
  const step = { id: 'first_email', title: 'First email, in test', isOptional: false } as const;
  if (testEmail === undefined) return { ...step, state: 'todo', summary: 'None yet' };
  // The simulator has answered, whichever result the address stands for.
  return { ...step, state: 'done', summary: `Sent, simulated as ${testEmail.status}` };
}

const wordOf = ({ status }: EmailSummary): string =>
  `${status.charAt(0).toUpperCase()}${status.slice(1)}`;

/** The domain that is furthest, the oldest first. */
export function leadingDomain(domains: readonly Domain[]): Domain | undefined {
  const oldestFirst = domains.toReversed();
  return oldestFirst.find(({ status }) => status === 'verified') ?? oldestFirst[0];
}

function domainStep({ domains }: Facts): Step {
  const domain = leadingDomain(domains);
  const title = domain === undefined ? 'Your domain' : `Domain ${domain.name}`;
  const step = { id: 'domain', title, isOptional: false } as const;
  if (domain === undefined) return { ...step, state: 'todo', summary: 'None yet' };
  const needed = domain.records.filter(({ required }) => required);
  const found = needed.filter(({ status }) => status === 'verified').length;
  const summary = `${found} of ${needed.length} records found`;
  if (domain.status === 'verified') return { ...step, state: 'done', summary: 'Verified' };
  return { ...step, state: isWrong(domain) ? 'wrong' : 'todo', summary };
}

function isWrong({ status, records }: Domain): boolean {
  return (
    status === 'failed' || status === 'degraded' || records.some((one) => one.status === 'mismatch')
  );
}

function webhookStep({ webhooks }: Facts): Step {
  const step = { id: 'webhook', title: 'Webhook', isOptional: true } as const;
  const [webhook] = webhooks;
  if (webhook === undefined) return { ...step, state: 'todo', summary: 'None' };
  if (webhook.failing_since !== null)
    return { ...step, state: 'wrong', summary: 'Deliveries fail' };
  return { ...step, state: 'done', summary: things(webhooks.length, 'endpoint') };
}

function bouncesStep({ doctor }: Facts): Step {
  const step = { id: 'bounces', title: 'Incoming bounces', isOptional: false } as const;
  const found = findingsOf(doctor, ['inbound_port']);
  if (found.length === 0) return { ...step, state: 'todo', summary: 'Not checked yet' };
  const isRight = found.every(({ level }) => level === 'green' || level === 'unknown');
  if (isRight) return { ...step, state: 'done', summary: 'The port answers' };
  return {
    ...step,
    state: count(found, 'red') > 0 ? 'wrong' : 'todo',
    summary: 'Bounces are lost',
  };
}

function backupsStep({ status }: Facts): Step {
  const step = { id: 'backups', title: 'Backups', isOptional: false } as const;
  if (status === undefined) return { ...step, state: 'todo', summary: 'Not known yet' };
  const { backup } = status;
  if (backup === null) return { ...step, state: 'todo', summary: 'None are made' };
  if (backup.problem !== null) return { ...step, state: 'wrong', summary: 'Cannot be listed' };
  if (backup.newest === null) return { ...step, state: 'waits', summary: 'There is no backup yet' };
  return { ...step, state: 'done', summary: 'Made on schedule' };
}

const ALERT_VARIABLES = ['LETTERHAUS_OPERATOR_ADDRESS', 'LETTERHAUS_OPERATOR_WEBHOOK'];

function alertsStep({ variables }: Facts): Step {
  const step = { id: 'alerts', title: 'Alerts', isOptional: true } as const;
  const set = variables?.filter(
    ({ name, is_set: isSet }) => isSet && ALERT_VARIABLES.includes(name),
  );
  if (set === undefined || set.length === 0)
    return { ...step, state: 'todo', summary: 'No address is set' };
  const isMail = set.some(({ name }) => name === ALERT_VARIABLES[0]);
  const ways = [isMail && 'email', set.length > (isMail ? 1 : 0) && 'webhook'].filter(Boolean);
  return { ...step, state: 'done', summary: `By ${ways.join(' and ')}` };
}

const ARRIVED: ReadonlySet<string> = new Set(['delivered', 'sent', 'complained']);
const REFUSED: ReadonlySet<string> = new Set(['bounced', 'failed']);

function liveEmailStep({ domains, liveEmail }: Facts): Step {
  const step = { id: 'live_email', title: 'First live email', isOptional: false } as const;
  if (liveEmail !== undefined) {
    const state = ARRIVED.has(liveEmail.status)
      ? 'done'
      : REFUSED.has(liveEmail.status)
        ? 'wrong'
        : 'todo';
    const isCanceled = liveEmail.status === 'canceled';
    return { ...step, state, summary: isCanceled ? 'Not sent yet' : wordOf(liveEmail) };
  }
  const isReady = domains.some(({ status }) => status === 'verified');
  if (isReady) return { ...step, state: 'todo', summary: 'Ready to send' };
  return { ...step, state: 'waits', summary: 'Waits for a verified domain' };
}

function count(findings: readonly DoctorFinding[], level: DoctorFinding['level']): number {
  return findings.filter((finding) => finding.level === level).length;
}

function things(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

export type Progress = {
  done: number;
  total: number;
  title: string;
  next: Step | null;
  isWrong: boolean;
};

/** Counts the needed steps that are done, and finds the next one: a wrong step comes before a missing one. */
export function progressOf(steps: readonly Step[]): Progress {
  const needed = steps.filter(({ isOptional }) => !isOptional);
  const done = needed.filter(({ state }) => state === 'done').length;
  const open = needed.filter(({ state }) => state !== 'done');
  const wrong = open.find(({ state }) => state === 'wrong');
  const next = wrong ?? open.find(({ state }) => state === 'todo') ?? open[0] ?? null;
  const head = `${done} of ${needed.length} required steps done.`;
  const title =
    next === null
      ? 'Everything is set up. Mail goes out live.'
      : `${head} Next: ${next.title.toLowerCase() === next.title ? next.title : lowered(next.title)}`;
  return { done, total: needed.length, title, next, isWrong: wrong !== undefined };
}

/** "API key" and names keep their capitals. */
function lowered(title: string): string {
  return /^[A-Z][a-z]/.test(title) ? title.charAt(0).toLowerCase() + title.slice(1) : title;
}
