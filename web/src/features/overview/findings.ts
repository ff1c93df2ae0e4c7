/** What needs attention in a project: a sentence for each finding, with the page or the words that help. */
import type {
  Domain,
  Limits,
  OperatorCondition,
  Queue,
  Stats,
  Webhook,
} from '../../../../sdk/src/api.ts';
import { megabytes, recipients } from '../../lib/numbers.ts';
import { isNearlyFull } from '../projects/storage-words.ts';

/** A condition of the installation has its remedy in words, and no page. */
export type Finding = { text: string } & (Linked | { remedy: string });

type Linked = {
  /** What to do about it: the words of the link. */
  action: string;
} & (
  | { to: '/$project/$environment/domains/$id' | '/$project/$environment/webhooks/$id'; id: string }
  | { to: '/$project/$environment/projects' }
  | { to: '/$project/$environment/emails'; search: { q: string } }
  | { to: '/$project/$environment/queue'; search: { provider: string } }
);

/** Receivers begin to refuse mail of senders above these. */
const BOUNCES_MAX = 0.05;
const COMPLAINTS_MAX = 0.001;
/** Below that, a share says nothing. */
const RECIPIENTS_MIN = 100;

const ON_HOLD: Finding = {
  text: 'The service was restored from a backup and is on hold: it accepts mail and sends nothing until its operator releases it (letterhaus release).',
  action: 'See what waits',
  to: '/$project/$environment/emails',
  search: { q: 'status:queued' },
};

export type Facts = {
  isOnHold: boolean;
  conditions: readonly OperatorCondition[];
  projectId: string;
  domains: readonly Domain[];
  webhooks: readonly Webhook[];
  providers: Queue['providers'];
  limits: Limits | undefined;
  stats: Stats | undefined;
};

export function findingsOf(facts: Facts): Finding[] {
  return [
    ...(facts.isOnHold ? [ON_HOLD] : []),
    ...facts.conditions.flatMap((one) => ofCondition(one, facts.projectId)),
    ...facts.domains.flatMap(ofDomain),
    ...facts.webhooks.flatMap(ofWebhook),
    ...facts.providers.flatMap(ofProvider),
    ...ofStorage(facts.limits),
    ...ofStats(facts.stats),
  ];
}

/** Those of this project's own domains and webhooks are found with them. */
function ofCondition(
  { type, message, remedy, details }: OperatorCondition,
  projectId: string,
): Finding[] {
  const isOwn = type === 'domain.degraded' || type === 'webhook.disabled';
  return isOwn && details['project_id'] === projectId ? [] : [{ text: message, remedy }];
}

function ofDomain({ id, name, status, can_sign: canSign, advice }: Domain): Finding[] {
  const to = '/$project/$environment/domains/$id';
  if (!canSign) {
    const text = `The service cannot open the DKIM key of ${name}: its mail waits unsent.`;
    return [{ text, action: 'See what to do', to, id }];
  }
  if (status === 'verified') {
    // That receivers begin to mind its mail; other advice can wait.
    const alerts = advice.filter(({ about }) => about === 'reputation');
    return alerts.map(({ message }) => ({
      text: `${name}: ${message}`,
      action: 'See the domain',
      to,
      id,
    }));
  }
  if (status === 'degraded') {
    const text = `Required records of ${name} are missing: it stops sending after 72 hours.`;
    return [{ text, action: 'See its records', to, id }];
  }
  const text =
    status === 'failed'
      ? `The records of ${name} have been missing for days: nothing can be sent from it.`
      : `${name} is not verified yet: nothing can be sent from it.`;
  return [{ text, action: 'See its records', to, id }];
}

function ofWebhook({ id, url, status, failing_since: since }: Webhook): Finding[] {
  if (status === 'enabled' && since === null) return [];
  const text =
    status === 'disabled'
      ? `The webhook ${url} is disabled.`
      : `The webhook ${url} does not answer.`;
  const action = status === 'disabled' ? 'Enable it' : 'See its deliveries';
  return [{ text, action, to: '/$project/$environment/webhooks/$id', id }];
}

function ofProvider({ provider, state, waiting }: Queue['providers'][number]): Finding[] {
  if (waiting === 0 || (state !== 'suspended' && state !== 'slowed')) return [];
  const what = state === 'suspended' ? 'gets no mail at present' : 'asked for less mail';
  const text = `${provider} ${what}: ${recipients(waiting)} ${waiting === 1 ? 'waits' : 'wait'}.`;
  const to = '/$project/$environment/queue';
  return [{ text, action: 'See why', to, search: { provider } }];
}

function ofStorage(limits: Limits | undefined): Finding[] {
  if (!limits || !isNearlyFull(limits.storage)) return [];
  const { max_bytes: max, used_bytes: used } = limits.storage;
  const text = `The project stores ${megabytes(used)} of ${megabytes(max ?? 0)}: without room its mail is refused.`;
  return [{ text, action: 'See its limits', to: '/$project/$environment/projects' }];
}

function ofStats(stats: Stats | undefined): Finding[] {
  const [total] = stats?.totals ?? [];
  const ended = total ? total.delivered + total.sent + total.bounced : 0;
  if (!total || ended < RECIPIENTS_MIN) return [];
  const of = (status: 'bounced' | 'complained', most: number, text: string): Finding[] =>
    total[status] / ended <= most
      ? []
      : [
          {
            text,
            action: 'See these emails',
            to: '/$project/$environment/emails',
            search: { q: `status:${status}` },
          },
        ];
  return [
    ...of('bounced', BOUNCES_MAX, 'More than 5 % of the recipients of the last 24 hours bounced.'),
    ...of(
      'complained',
      COMPLAINTS_MAX,
      'More than 0.1 % of the recipients of the last 24 hours complained.',
    ),
  ];
}
