/**
 * Checks the requirements of Gmail, Yahoo and Microsoft for senders, one by one, for each domain. They call a domain a
 * bulk sender from about 5,000 messages a day to their users. Some requirements apply to every sender.
 *
 * Lists only requirements that DNS, the configuration or the counts of the installation can show. The composer
 * (mail/compose.ts) meets those on the form of a message.
 */
import { readInstallationHosts, recordSetupOf } from '../../domains/domain-check.ts';
import { findAuthentication } from '../../domains/dns/authentication.ts';
import { requiredRecords } from '../../domains/dns/records.ts';
import type { AuthenticationFinding } from '../../core/dns/dns-findings.ts';
import { signingAlgorithms } from '../../mail/dkim.ts';
import type { CheckContext } from '../check-context.ts';
import { type DomainVolume, readDomainVolume } from '../doctor-store.ts';
import { type Finding, green, red, unknown, worstOf, yellow } from '../finding.ts';
import { REVERSE_DNS } from '../network/reverse-dns.ts';
import type { Check } from '../run-checks.ts';
import { adviceFor, type CheckedDomain, forEachDomain } from './live-domains.ts';

/** Recipients a day from which the rules for bulk senders are close. */
const BULK_PER_DAY = 4_000;
const COMPLAINTS_MAX = 0.003;
const COMPLAINTS_HIGH = 0.001;
/** Below this number, one complaint more or less decides. */
const RECIPIENTS_MIN = 300;

type Requirement =
  | 'spf'
  | 'dkim'
  | 'dmarc'
  | 'alignment'
  | 'reverse_dns'
  | 'complaints'
  | 'unsubscribe'
  | 'replies';

/** `level` is `red` where the requirement is not met, and `yellow` where it is nearly not met. */
type Fact = { level: Finding['level']; found: string; remedy: string };
type Facts = Readonly<Record<Requirement, Fact>>;

/** Requirements of every sender, whose mail is refused without them. */
const OF_EVERY_SENDER: ReadonlySet<Requirement> = new Set(['reverse_dns', 'complaints']);

const GMAIL: readonly Requirement[] = [
  'spf',
  'dkim',
  'dmarc',
  'alignment',
  'reverse_dns',
  'complaints',
  'unsubscribe',
];

export const BULK_GMAIL = bulkCheck('bulk_gmail', 'Gmail', GMAIL);
export const BULK_YAHOO = bulkCheck('bulk_yahoo', 'Yahoo', GMAIL);
export const BULK_MICROSOFT = bulkCheck('bulk_microsoft', 'Microsoft', [
  'spf',
  'dkim',
  'dmarc',
  'alignment',
  'replies',
]);

function bulkCheck(id: string, company: string, requirements: readonly Requirement[]): Check {
  return {
    id,
    title: `Requirements of ${company}`,
    run: (context) =>
      forEachDomain(context, async (domain) => {
        const known = await factsFor(context, domain);
        if ('unknown' in known) return [unknown(known.unknown, { subject: domain.name })];
        const { facts, volume } = known;
        return requirements.map((name) => {
          const isStrict = OF_EVERY_SENDER.has(name) || volume.lastDay >= BULK_PER_DAY;
          return judge(facts[name], { company, subject: domain.name, isStrict, volume });
        });
      }),
  };
}

type Judging = { company: string; subject: string; isStrict: boolean; volume: DomainVolume };

function judge(
  { level, found, remedy }: Fact,
  { company, subject, isStrict, volume }: Judging,
): Finding {
  if (level === 'green') return green(found, subject);
  if (level === 'unknown') return unknown(found, { subject, remedy });
  const meaning = isStrict
    ? `${company} delays or refuses such mail.`
    : `${company} requires it of senders of more than 5,000 messages a day. This domain reached ${volume.lastDay} recipients in the last day.`;
  return (level === 'red' && isStrict ? red : yellow)(found, { subject, meaning, remedy });
}

type KnownFacts = { facts: Facts; volume: DomainVolume } | { unknown: string };

const factsOfRun = new WeakMap<CheckContext, Map<string, Promise<KnownFacts>>>();

/** Finds the facts once for each domain and run: three checks use them. */
function factsFor(context: CheckContext, domain: CheckedDomain): Promise<KnownFacts> {
  const known = factsOfRun.get(context) ?? new Map<string, Promise<KnownFacts>>();
  factsOfRun.set(context, known);
  const facts = known.get(domain.name) ?? findFacts(context, domain);
  known.set(domain.name, facts);
  return facts;
}

async function findFacts(
  context: CheckContext,
  { name, stored }: CheckedDomain,
): Promise<KnownFacts> {
  const { database, resolver, config } = context;
  if (stored === null || database.kind !== 'open') {
    return { unknown: `${name} is not a live domain that the database shows.` };
  }
  const installation = await readInstallationHosts(database.db, config);
  const expected = requiredRecords(recordSetupOf(stored, installation));
  const algorithms = signingAlgorithms(stored, stored.ed25519Verified);
  const [authentication, volume, reverse, advice] = await Promise.all([
    findAuthentication(
      { name, expected, algorithms },
      { lookups: resolver, installation, relay: config.relay?.host ?? null },
    ),
    readDomainVolume(database.db, name),
    REVERSE_DNS.run(context),
    adviceFor(context, name),
  ]);
  const hasReplies = !advice.some(({ about }) => about === 'replies');
  const hasLinks = config.publicUrl?.startsWith('https:') === true;
  const facts: Facts = {
    ...authenticationFacts(name, authentication),
    reverse_dns: fact(worstOf(reverse.map(({ level }) => level)), {
      met: 'Every address has forward-confirmed reverse DNS.',
      unmet: 'The reverse DNS of an address is missing or wrong.',
      remedy: 'Read the check `reverse_dns`.',
    }),
    complaints: complaintFact(name, volume),
    unsubscribe: fact(hasLinks ? 'green' : 'red', {
      met: 'LETTERHAUS_PUBLIC_URL permits one-click unsubscribe links.',
      unmet:
        'Without an https:// address in LETTERHAUS_PUBLIC_URL, no mail has one-click unsubscribe.',
      remedy: 'Set LETTERHAUS_PUBLIC_URL (docs/unsubscribe.md).',
    }),
    replies: fact(hasReplies ? 'green' : 'red', {
      met: `${name} accepts replies.`,
      unmet: `${name} accepts no replies.`,
      remedy: 'Read the check `domain_replies`.',
    }),
  };
  return { facts, volume };
}

type Texts = { met: string; unmet: string; remedy: string };

function fact(level: Fact['level'], { met, unmet, remedy }: Texts): Fact {
  const found = level === 'green' ? met : level === 'unknown' ? `Not known: ${met}` : unmet;
  return { level, found, remedy };
}

type Verdict = 'pass' | 'fail' | 'none' | 'unknown';

const LEVEL_OF = { pass: 'green', fail: 'red', none: 'red', unknown: 'unknown' } as const;

function authenticationFacts(
  name: string,
  { spf, dkim, dmarc }: AuthenticationFinding,
): Pick<Facts, 'spf' | 'dkim' | 'dmarc' | 'alignment'> {
  const verdicts = dkim.map(({ verdict }) => verdict);
  const signed: Verdict = verdicts.includes('pass') ? 'pass' : (verdicts[0] ?? 'fail');
  const hasPolicy: Verdict =
    dmarc.verdict === 'none' ? 'none' : dmarc.policy === null ? 'unknown' : 'pass';
  const records = 'Read the check `domain_records`.';
  return {
    spf: fact(LEVEL_OF[spf.verdict], {
      met: `SPF of ${spf.domain} passes.`,
      unmet: `SPF of ${spf.domain} fails.`,
      remedy: records,
    }),
    dkim: fact(LEVEL_OF[signed], {
      met: `The DKIM signature of ${name} passes.`,
      unmet: `The DKIM signature of ${name} fails.`,
      remedy: records,
    }),
    dmarc: fact(LEVEL_OF[hasPolicy], {
      met: `${name} has a DMARC policy.`,
      unmet: `${name} has no DMARC policy.`,
      remedy: 'Read the check `domain_dmarc`.',
    }),
    alignment: fact(LEVEL_OF[dmarc.verdict], {
      met: `DMARC of ${name} passes: SPF or DKIM is aligned with From.`,
      unmet: `DMARC of ${name} does not pass.`,
      remedy: `${records} And read \`domain_dmarc\`.`,
    }),
  };
}

function complaintFact(name: string, { lastMonth, complainedLastMonth }: DomainVolume): Fact {
  const share = lastMonth === 0 ? 0 : complainedLastMonth / lastMonth;
  const counted = `${complainedLastMonth} of ${lastMonth} recipients complained about mail from ${name} in 30 days`;
  if (lastMonth < RECIPIENTS_MIN) {
    return {
      level: complainedLastMonth === 0 ? 'green' : 'unknown',
      found: `${counted}. That is too few to judge.`,
      remedy: 'Look at Google Postmaster Tools.',
    };
  }
  const percent = `${counted} (${(share * 100).toFixed(2)} %)`;
  return {
    level: share >= COMPLAINTS_MAX ? 'red' : share >= COMPLAINTS_HIGH ? 'yellow' : 'green',
    found: `${percent}. The limit is 0.3 %, and below 0.1 % is good.`,
    remedy: 'Send only to recipients who asked for it, and make unsubscribing easy.',
  };
}
