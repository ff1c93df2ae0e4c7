/** Findings that need attention in a project: a sentence for each, with a page or a remedy. */
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

/** A condition of the installation has a remedy in words instead of a page. */
export type Finding = { text: string } & (Linked | { remedy: string });

type Linked = {
  /** The text of the link. */
  action: string;
} & (
  | { to: '/$project/$environment/domains/$id' | '/$project/$environment/webhooks/$id'; id: string }
  | { to: '/$project/$environment/projects' }
  | { to: '/$project/$environment/emails'; search: { q: string } }
  | { to: '/$project/$environment/queue'; search: { provider: string } }
);

/**
 * Bounces: as in reputation/alert.ts. Complaints: receivers ask for fewer than 0.1 %. They block at about 0.3 %, and a
 * reputation alert begins there. The overview warns earlier, while there is time to act.
 */
const BOUNCES_MAX = 0.05;
const COMPLAINTS_MAX = 0.001;
/** With fewer recipients a share means little. */
const RECIPIENTS_MIN = 100;

const ON_HOLD: Finding = {
  text: 'The service was restored from a backup and is on hold. It accepts emails and sends none until an operator runs `letterhaus release`.',
  action: 'Show queued emails',
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

/** Leaves out the domains and webhooks of this project, which have findings of their own. */
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
    const text = `The service cannot read the DKIM key of ${name}, so its emails are not sent.`;
    return [{ text, action: 'Show domain', to, id }];
  }
  if (status === 'verified') {
    // Only its reputation needs attention now; other advice is on its page.
    const alerts = advice.filter(({ about }) => about === 'reputation');
    return alerts.map(({ message }) => ({
      text: `${name}: ${message}`,
      action: 'Show domain',
      to,
      id,
    }));
  }
  if (status === 'degraded') {
    const text = `Required DNS records of ${name} are missing. After 72 hours you can no longer send from it.`;
    return [{ text, action: 'Show records', to, id }];
  }
  const text =
    status === 'failed'
      ? `DNS records of ${name} have been missing for days. You cannot send from this domain.`
      : `${name} is not verified yet. You cannot send from this domain.`;
  return [{ text, action: 'Show records', to, id }];
}

function ofWebhook({ id, url, status, failing_since: since }: Webhook): Finding[] {
  if (status === 'enabled' && since === null) return [];
  const text =
    status === 'disabled'
      ? `The webhook ${url} is disabled.`
      : `Deliveries to the webhook ${url} fail.`;
  const action = status === 'disabled' ? 'Enable webhook' : 'Show deliveries';
  return [{ text, action, to: '/$project/$environment/webhooks/$id', id }];
}

function ofProvider({ provider, state, waiting }: Queue['providers'][number]): Finding[] {
  if (waiting === 0 || (state !== 'suspended' && state !== 'slowed')) return [];
  const what = state === 'suspended' ? 'suspended' : 'slowed down';
  const are = waiting === 1 ? 'is' : 'are';
  const text = `Delivery to ${provider} is ${what}. ${recipients(waiting)} ${are} queued.`;
  const to = '/$project/$environment/queue';
  return [{ text, action: 'Show why', to, search: { provider } }];
}

function ofStorage(limits: Limits | undefined): Finding[] {
  if (!limits || !isNearlyFull(limits.storage)) return [];
  const { max_bytes: max, used_bytes: used } = limits.storage;
  const text = `This project stores ${megabytes(used)} of ${megabytes(max ?? 0)}. When its storage is full, emails are refused.`;
  return [{ text, action: 'Show limits', to: '/$project/$environment/projects' }];
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
            action: 'Show these emails',
            to: '/$project/$environment/emails',
            search: { q: `status:${status}` },
          },
        ];
  return [
    ...of('bounced', BOUNCES_MAX, 'More than 5 % of recipients bounced in the last 24 hours.'),
    ...of(
      'complained',
      COMPLAINTS_MAX,
      'More than 0.1 % of recipients complained in the last 24 hours.',
    ),
  ];
}
