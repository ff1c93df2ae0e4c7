/**
 * Findings: what needs attention in a project, by weight. A finding has a figure, since when it holds, who can act, and
 * one action: a page, or a remedy in words. The limits are those of the alarms (src/core/thresholds.ts, the reputation
 * rule of the project), so that the overview and an alarm never disagree.
 */
import { DEFERRED_SHARE, MAIL_WAITS } from '../../../../../src/core/thresholds.ts';
import type {
  Domain,
  Limits,
  OperatorCondition,
  Queue,
  Webhook,
} from '../../../../../sdk/src/api.ts';
import { megabytes, recipients } from '../../../lib/numbers.ts';
import { providerName, withProviderName } from '../../../lib/providers.ts';
import { inWords } from '../../../lib/time.ts';
import type { Tone } from '../../../ui/tone.ts';
import { isNearlyFull } from '../../projects/storage-words.ts';
import {
  type CountedPart,
  endedOf,
  outcomesOf,
  percent,
  shareOf,
  sum,
} from '../figures/figures.ts';

/** A high finding is urgent or stops mail. A medium one needs somebody soon. A low one can wait. */
export type Weight = 'high' | 'medium' | 'low';

export type Finding = {
  /** Its kind and the id of its object. It stays the same while the finding holds, so that it can be snoozed. */
  id: string;
  kind: 'hold' | 'condition' | 'domain' | 'webhook' | 'provider' | 'storage' | 'rate';
  weight: Weight;
  tone: Tone;
  /** A few words for the verdict, after a colon. */
  headline: string;
  title: string;
  detail?: string | undefined;
  figure?: { value: string; unit: string } | undefined;
  /** ISO 8601. */
  since?: string | null | undefined;
  owner: Owner;
  action: Action | null;
};

/** Who can act. */
export type Owner = 'you' | 'the operator' | 'the owner of the webhook' | 'the owner of the domain';

export type Action = { label: string } & (
  | { to: '/$project/$environment/domains/$id' | '/$project/$environment/webhooks/$id'; id: string }
  | { to: '/$project/$environment/projects' }
  | { to: '/$project/$environment/emails'; search: { q: string } }
  | { to: '/$project/$environment/queue'; search: { provider: string } }
);

/** Complaints: receivers ask for fewer than 0.1 %. The overview warns here, while there is time to act. */
export const COMPLAINTS_SOON = 0.001;
/** With fewer recipients a share means little. */
const RECIPIENTS_MIN = 100;
/** Times the limit from which a short time above it is urgent. */
export const FAR_ABOVE = 2;
/** Number of recent hours by which the current rates are judged. */
const RECENT_HOURS = 2;

export type Facts = {
  isOnHold: boolean;
  conditions: readonly OperatorCondition[];
  projectId: string;
  domains: readonly Domain[];
  webhooks: readonly Webhook[];
  providers: Queue['providers'];
  limits: Limits | undefined;
  /** The last 24 hours, in order. */
  hours: readonly CountedPart[];
  nowMs: number;
};

/** @returns the findings, the heaviest first */
export function findingsOf(facts: Facts): Finding[] {
  const all = [
    ...(facts.isOnHold ? [ON_HOLD] : []),
    ...facts.conditions.flatMap((one) => ofCondition(one, facts.projectId)),
    ...facts.domains.flatMap(ofDomain),
    ...facts.providers.flatMap((one) => ofProvider(one, facts.nowMs)),
    ...ofRates(facts),
    ...facts.webhooks.flatMap(ofWebhook),
    ...ofStorage(facts.limits),
  ];
  return WEIGHTS.flatMap((weight) => all.filter((one) => one.weight === weight));
}

const WEIGHTS: readonly Weight[] = ['high', 'medium', 'low'];

const ON_HOLD: Finding = {
  id: 'hold',
  kind: 'hold',
  weight: 'high',
  tone: 'bad',
  headline: 'on hold after a restore',
  title: 'The service was restored from a backup and is on hold.',
  detail: 'It accepts emails and sends none until an operator runs `letterhaus release`.',
  owner: 'the operator',
  action: {
    label: 'Show queued emails',
    to: '/$project/$environment/emails',
    search: { q: 'status:queued' },
  },
};

/** Conditions that refuse or stop mail, or will within hours. */
const URGENT: ReadonlySet<string> = new Set([
  'provider.blocked',
  'disk.low',
  'database.full',
  'secret_key.unusable',
  'dns.unavailable',
  'doctor.red',
]);

/** Conditions in the words of the verdict. */
const HEADLINES: Readonly<Record<string, string>> = {
  'provider.blocked': 'a provider refuses all mail',
  'disk.low': 'the disk is nearly full',
  'database.full': 'the database is full',
  'dns.unavailable': 'DNS does not answer',
};

/** Leaves out the domains and webhooks of this project, which have findings of their own. */
function ofCondition(condition: OperatorCondition, projectId: string): Finding[] {
  const { type, subject, message, remedy, details, since } = condition;
  const isOwn = type === 'domain.degraded' || type === 'webhook.disabled';
  if (isOwn && details['project_id'] === projectId) return [];
  const isUrgent = URGENT.has(type);
  return [
    {
      id: `condition.${type}:${subject}`,
      kind: 'condition',
      weight: isUrgent ? 'high' : 'medium',
      tone: isUrgent ? 'bad' : 'wait',
      headline: HEADLINES[type] ?? 'the operator has to act',
      title: message,
      detail: remedy,
      since,
      owner: 'the operator',
      action: null,
    },
  ];
}

function ofDomain({ id, name, status, can_sign: canSign, advice }: Domain): Finding[] {
  const finding = (more: Pick<Finding, 'id' | 'weight' | 'title'> & Partial<Finding>): Finding => ({
    kind: 'domain',
    headline: `${name} needs its owner`,
    tone: more.weight === 'high' ? 'bad' : 'wait',
    owner: 'the owner of the domain',
    action: { label: 'Show records', to: '/$project/$environment/domains/$id', id },
    ...more,
  });
  const show = { label: 'Show domain', to: '/$project/$environment/domains/$id', id } as const;
  if (!canSign) {
    const title = `The service cannot read the DKIM key of ${name}, so its emails are not sent.`;
    const owner = 'the operator' as const;
    return [finding({ id: `domain.unsigned:${id}`, weight: 'high', title, owner, action: show })];
  }
  if (status === 'verified') {
    return advice.map(({ about, message }) =>
      about === 'reputation'
        ? finding({
            id: `domain.reputation:${id}`,
            headline: `${name} has too many bounces or complaints`,
            weight: 'high',
            title: `${name} has too many bounces or complaints.`,
            detail: message,
            owner: 'you',
            action: show,
          })
        : finding({
            id: `domain.${about}:${id}`,
            weight: 'low',
            tone: 'open',
            title: `${name}: ${message}`,
            action: show,
          }),
    );
  }
  if (status === 'degraded') {
    const title = `Required DNS records of ${name} are missing.`;
    const detail = 'After 72 hours you can no longer send from it.';
    const headline = `DNS records of ${name} are missing`;
    return [finding({ id: `domain.degraded:${id}`, headline, weight: 'high', title, detail })];
  }
  const title =
    status === 'failed'
      ? `DNS records of ${name} have been missing for days.`
      : `${name} is not verified yet.`;
  const detail = 'You cannot send from this domain.';
  const weight = status === 'failed' ? 'high' : 'medium';
  const headline =
    status === 'failed' ? `DNS records of ${name} are missing` : `${name} is not verified`;
  return [finding({ id: `domain.${status}:${id}`, headline, weight, title, detail })];
}

function ofWebhook(webhook: Webhook): Finding[] {
  const { id, url, status, failing_since: since, disabled_reason: reason } = webhook;
  if (status === 'enabled' && since === null) return [];
  const isDisabled = status === 'disabled';
  const { host } = new URL(url);
  return [
    {
      id: `webhook.${isDisabled ? 'disabled' : 'failing'}:${id}`,
      kind: 'webhook',
      headline: isDisabled ? 'a webhook is disabled' : 'a webhook fails',
      weight: 'medium',
      tone: 'wait',
      title: isDisabled
        ? `The webhook at ${host} is disabled.`
        : `Deliveries to the webhook at ${host} fail.`,
      detail: isDisabled
        ? `${url} ${reason ?? 'receives no events until it is enabled.'}`
        : `Events for ${url} are kept and retried.`,
      since,
      owner: 'the owner of the webhook',
      action: {
        label: isDisabled ? 'Enable webhook' : 'Show deliveries',
        to: '/$project/$environment/webhooks/$id',
        id,
      },
    },
  ];
}

type ProviderRow = Queue['providers'][number];

/** A provider that takes no mail or less, or whose mail has been due for longer than the alarm allows. */
function ofProvider(row: ProviderRow, nowMs: number): Finding[] {
  const { provider, state, waiting, limit, oldest_due_at: oldest } = row;
  if (waiting === 0) return [];
  const lateMs = oldest === null ? 0 : nowMs - Date.parse(oldest);
  const isStopped = state === 'suspended' || state === 'slowed';
  const isLate = lateMs > MAIL_WAITS.soonMs && limit?.name !== 'hold';
  if (!isStopped && !isLate) return [];
  const isUrgent = lateMs > MAIL_WAITS.urgentMs || state === 'suspended';
  const are = waiting === 1 ? 'is' : 'are';
  const queued = `${recipients(waiting)} ${are} queued.`;
  const name = providerName(provider);
  const what = state === 'suspended' ? 'suspended' : 'slowed down';
  return [
    {
      id: `provider:${provider}`,
      kind: 'provider',
      headline: `mail for ${name} waits`,
      weight: isUrgent ? 'high' : 'medium',
      tone: isUrgent ? 'bad' : 'wait',
      title: isStopped
        ? `Delivery to ${name} is ${what}. ${queued}`
        : `Mail for ${name} has been due for ${inWords(lateMs / 1000)}. ${queued}`,
      detail: limit ? withProviderName(limit.message, provider) : undefined,
      figure: { value: waiting.toLocaleString(), unit: waiting === 1 ? 'waits' : 'wait' },
      since: oldest,
      owner: 'you',
      action: { label: 'Show why', to: '/$project/$environment/queue', search: { provider } },
    },
  ];
}

function ofStorage(limits: Limits | undefined): Finding[] {
  if (!limits || !isNearlyFull(limits.storage)) return [];
  const { max_bytes: max, used_bytes: used } = limits.storage;
  const share = max === null || max === 0 ? 1 : used / max;
  return [
    {
      id: 'storage',
      kind: 'storage',
      headline: 'storage is nearly full',
      weight: share >= 0.95 ? 'high' : 'medium',
      tone: share >= 0.95 ? 'bad' : 'wait',
      title: `This project stores ${megabytes(used)} of ${megabytes(max ?? 0)}.`,
      detail: 'When its storage is full, emails are refused.',
      figure: { value: percent(share), unit: 'used' },
      owner: 'the operator',
      action: { label: 'Show limits', to: '/$project/$environment/projects' },
    },
  ];
}

/** The shares above which a rate is a finding. */
export type RateLimits = { bounced: number; complained: number };

export function rateLimitsOf(limits: Limits | undefined): RateLimits | null {
  if (limits === undefined) return null;
  return { bounced: limits.reputation.bounces, complained: COMPLAINTS_SOON };
}

function ofRates({ hours, limits }: Facts): Finding[] {
  const rates = rateLimitsOf(limits);
  if (limits === undefined || rates === null) return [];
  const total = sum(hours);
  const findings = [...ofDeferrals(hours), ...ofBounces(hours, rates.bounced)];
  if (endedOf(total) < RECIPIENTS_MIN) return findings;
  const complained = shareOf(total, 'complained') ?? 0;
  if (complained > rates.complained) {
    const isAlert = complained > limits.reputation.complaints;
    findings.push(
      rateFinding('complained', {
        weight: isAlert ? 'high' : 'medium',
        title: `${percent(complained)} of recipients complained in the last 24 hours, above the limit of ${percent(rates.complained)}.`,
        detail: 'Mail only people who asked for it, and let them unsubscribe easily.',
        value: total.complained,
        since: aboveSince(hours, (part) => (shareOf(part, 'complained') ?? 0) > rates.complained),
      }),
    );
  }
  return findings;
}

/** Bounces of a day, as the reputation alert; and of the last two hours, so that a burst is seen before the alert. */
function ofBounces(hours: readonly CountedPart[], limit: number): Finding[] {
  const since = aboveSince(hours, (part) => (shareOf(part, 'bounced') ?? 0) > limit);
  const about = {
    detail: 'Receivers block senders like this. Mail only addresses that were confirmed.',
    since,
  };
  const periods = [
    ['the last 24 hours', sum(hours)],
    ['the last two hours', sum(hours.slice(-RECENT_HOURS))],
  ] as const;
  for (const [words, counts] of periods) {
    const share = shareOf(counts, 'bounced') ?? 0;
    if (endedOf(counts) < RECIPIENTS_MIN || share <= limit) continue;
    const isDay = words === periods[0][0];
    const weight = isDay || share > FAR_ABOVE * limit ? 'high' : 'medium';
    const title = `${percent(share)} of recipients bounced in ${words}, above the limit of ${percent(limit)}.`;
    return [rateFinding('bounced', { ...about, weight, title, value: counts.bounced })];
  }
  return [];
}

/** As the alarm for all attempts of the installation: more than half of a number that means something. */
function ofDeferrals(hours: readonly CountedPart[]): Finding[] {
  const recent = sum(hours.slice(-RECENT_HOURS));
  const attempts = outcomesOf(recent);
  if (attempts <= DEFERRED_SHARE.attemptsMin || !isMostlyDeferred(recent)) return [];
  return [
    rateFinding('deferred', {
      weight: 'high',
      title: `${percent(recent.deferred / attempts)} of attempts in the last two hours were deferred.`,
      detail:
        'Nothing is lost: deferred mail is retried. The queue shows the replies of providers.',
      value: recent.deferred,
      since: aboveSince(hours, isMostlyDeferred),
    }),
  ];
}

export function isMostlyDeferred(
  part: Pick<CountedPart, 'deferred' | 'delivered' | 'bounced'>,
): boolean {
  return part.deferred > DEFERRED_SHARE.soon * (part.deferred + part.delivered + part.bounced);
}

const RATE_HEADLINES = {
  bounced: 'too many bounces',
  complained: 'too many complaints',
  deferred: 'most attempts are deferred',
} as const;

function rateFinding(
  status: 'bounced' | 'complained' | 'deferred',
  facts: { weight: Weight; title: string; detail: string; value: number; since: string | null },
): Finding {
  const { weight, title, detail, value, since } = facts;
  return {
    id: `rate.${status}`,
    kind: 'rate',
    headline: RATE_HEADLINES[status],
    weight,
    tone: weight === 'high' ? 'bad' : 'wait',
    title,
    detail,
    figure: { value: value.toLocaleString(), unit: status },
    since,
    owner: 'you',
    action: {
      label: 'Show these emails',
      to: '/$project/$environment/emails',
      search: { q: `status:${status}` },
    },
  };
}

/** The start of the first of the latest hours with mail that are all above a limit. */
function aboveSince(
  hours: readonly CountedPart[],
  isAbove: (part: CountedPart) => boolean,
): string | null {
  let since: number | null = null;
  for (const part of hours.toReversed()) {
    if (outcomesOf(part) + part.complained === 0) continue;
    if (!isAbove(part)) break;
    since = part.startMs;
  }
  return since === null ? null : new Date(since).toISOString();
}
