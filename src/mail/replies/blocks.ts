/**
 * Refusals that are about this server or the sending domain, so that the next message would be refused as well, and
 * where to ask for the end of such a block. What follows from one: delivery/blocks/provider-blocks.ts.
 */
import { meaningOf } from './classify.ts';
import type { Answer } from './match.ts';
import type { MeaningName } from './meanings.ts';
import type { SmtpPhase } from './smtp-reply.ts';

/** What a refusal is about. `unclear`: our address or the sending domain, the reply does not say which. */
export type RefusalSubject = 'address' | 'domain' | 'unclear';

/** Never about the recipient or one message. */
const MEANS: Partial<Record<MeaningName, RefusalSubject>> = {
  blocklisted: 'unclear',
  low_reputation: 'unclear',
  dynamic_address: 'address',
  no_reverse_dns: 'address',
  bad_helo: 'address',
  no_ipv6: 'address',
};

/** Before MAIL the server knows nothing but our address. */
const BEFORE_MAIL: ReadonlySet<SmtpPhase> = new Set(['greeting', 'ehlo', 'starttls']);

/** Phrases that name the address. A list of addresses (Spamhaus, SpamCop) names it in the reply, too. */
const NAMES_ADDRESS =
  /\b(?:ip|ips|ipv[46]|client host|network|mail server|rbl|dnsbl|s31[145]\d)\b|\[?\b\d{1,3}(?:\.\d{1,3}){3}\b|[\da-f]{1,4}:[\da-f:]*:[\da-f]{1,4}/;
const NAMES_DOMAIN =
  /\b(?:sending|sender'?s?|from|your|envelope|header) domains?\b|\bdomain(?:'s)? reputation\b|\bdbl\.|\breputation of (?:the |your )?domain\b/;

/**
 * What a refusal for good is about; null when it is about the recipient, the message, or nothing that is known.
 * @param senderDomain the domain of the author, which a reply may name
 */
export function refusalSubject(answer: Answer, senderDomain: string): RefusalSubject | null {
  const { phase, reply } = answer;
  if (reply.code < 500 || phase === 'auth') return null;
  const subject = MEANS[meaningOf(answer)];
  if (subject === undefined) return null;
  if (subject === 'address' || BEFORE_MAIL.has(phase)) return 'address';
  const text = reply.message.toLowerCase();
  const isAddress = NAMES_ADDRESS.test(text);
  const isDomain = NAMES_DOMAIN.test(text) || namesDomain(text, senderDomain.toLowerCase());
  if (isAddress === isDomain) return 'unclear';
  return isAddress ? 'address' : 'domain';
}

/** The domain stands by itself, not as the end of an address or of a longer name. */
function namesDomain(text: string, domain: string): boolean {
  for (let at = text.indexOf(domain); at >= 0; at = text.indexOf(domain, at + 1)) {
    const [before, after] = [text[at - 1] ?? ' ', text[at + domain.length] ?? ' '];
    if (!/[\w@.-]/.test(before) && !/[\w-]/.test(after)) return true;
  }
  return false;
}

/** Lists by a part of their name that replies contain, before the providers: they are who can end the block. */
const LISTS: readonly (readonly [name: string, page: string])[] = [
  ['spamhaus', 'https://check.spamhaus.org/'],
  ['spamcop', 'https://www.spamcop.net/bl.shtml'],
  ['barracuda', 'https://www.barracudacentral.org/rbl/removal-request'],
  ['abusix', 'https://lookup.abusix.com/'],
  ['proofpoint', 'https://ipcheck.proofpoint.com/'],
  ['uceprotect', 'https://www.uceprotect.net/en/rblcheck.php'],
  ['postmaster.gmx', 'https://postmaster.gmx.net/'],
  ['postmaster.web.de', 'https://postmaster.web.de/'],
  ['t-online.de', 'https://postmaster.t-online.de/'],
];

const PROVIDERS: Readonly<Record<string, string>> = {
  google: 'https://support.google.com/mail/contact/gmail_bulk_sender_escalation',
  outlook: 'https://olcsupport.office.com/',
  office365: 'https://sender.office.com/',
  microsoft: 'https://sender.office.com/',
  yahoo: 'https://senders.yahooinc.com/',
  apple: 'mailto:icloudadmin@apple.com',
  comcast: 'https://postmaster.comcast.net/',
};

/** Where to ask for removal; null: only the reply itself says. Replies of strangers add no links. */
export function delistingPage(provider: string, reply: string): string | null {
  const text = reply.toLowerCase();
  const list = LISTS.find(([name]) => text.includes(name))?.[1];
  return list ?? PROVIDERS[provider] ?? null;
}
