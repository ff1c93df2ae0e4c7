/**
 * Recognises refusals of this server or of the sending domain, which will also refuse the next message, and knows
 * where to ask for delisting. delivery/blocks/provider-blocks.ts acts on them.
 */
import { meaningOf } from './classify.ts';
import type { PhaseReply } from './rule-matching.ts';
import type { MeaningName } from './meanings.ts';
import type { SmtpPhase } from './smtp-reply.ts';

/** The subject of a refusal. `unclear`: our address or the sending domain; the reply does not say which. */
export type RefusalSubject = 'address' | 'domain' | 'unclear';

/** Meanings that never concern the recipient or a single message. */
const SUBJECT_OF_MEANING: Partial<Record<MeaningName, RefusalSubject>> = {
  blocklisted: 'unclear',
  low_reputation: 'unclear',
  dynamic_address: 'address',
  no_reverse_dns: 'address',
  bad_helo: 'address',
  no_ipv6: 'address',
};

/** Before MAIL the server knows only our address. */
const BEFORE_MAIL: ReadonlySet<SmtpPhase> = new Set(['greeting', 'ehlo', 'starttls']);

/** Phrases that name our address. Blocklists of addresses (Spamhaus, SpamCop) quote the address in the reply. */
const NAMES_ADDRESS =
  /\b(?:ip|ips|ipv[46]|client host|network|mail server|rbl|dnsbl|s31[145]\d)\b|\[?\b\d{1,3}(?:\.\d{1,3}){3}\b|[\da-f]{1,4}:[\da-f:]*:[\da-f]{1,4}/;
const NAMES_DOMAIN =
  /\b(?:sending|sender'?s?|from|your|envelope|header) domains?\b|\bdomain(?:'s)? reputation\b|\bdbl\.|\breputation of (?:the |your )?domain\b/;
/** Blocklists by a part of their name. They precede providers, because only the list can remove the entry. */
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

/**
 * Returns the subject of a permanent refusal; null when it concerns the recipient or the message, or is unknown.
 * @param senderDomain the domain of the author, which a reply may name
 */
export function refusalSubject(
  phaseReply: PhaseReply,
  senderDomain: string,
): RefusalSubject | null {
  const { phase, reply } = phaseReply;
  if (reply.code < 500 || phase === 'auth') return null;
  const subject = SUBJECT_OF_MEANING[meaningOf(phaseReply)];
  if (subject === undefined) return null;
  if (subject === 'address' || BEFORE_MAIL.has(phase)) return 'address';
  const text = reply.message.toLowerCase();
  const isAddress = NAMES_ADDRESS.test(text);
  const isDomain = NAMES_DOMAIN.test(text) || namesDomain(text, senderDomain.toLowerCase());
  if (isAddress === isDomain) return 'unclear';
  return isAddress ? 'address' : 'domain';
}

/** Returns whether the domain stands alone, not at the end of an address or of a longer name. */
function namesDomain(text: string, domain: string): boolean {
  for (let at = text.indexOf(domain); at >= 0; at = text.indexOf(domain, at + 1)) {
    const [before, after] = [text[at - 1] ?? ' ', text[at + domain.length] ?? ' '];
    if (!/[\w@.-]/.test(before) && !/[\w-]/.test(after)) return true;
  }
  return false;
}

/** Returns where to ask for delisting, or null when only the reply says. Its links are untrusted and never used. */
export function delistingPage(provider: string, reply: string): string | null {
  const text = reply.toLowerCase();
  const list = LISTS.find(([name]) => text.includes(name))?.[1];
  return list ?? PROVIDERS[provider] ?? null;
}
