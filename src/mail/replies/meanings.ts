/**
 * The meanings of a refusal and what follows from each, in one table for all sources:
 *
 *     a server's reply    rules.ts: the first rule that matches ──────────────────┐
 *     no usable reply     classify.ts ────────────────────────────────────────────┤
 *     a bounce report     the same rules, and mail/reports/classify-report.ts ────┼── MEANINGS ── classificationOf
 *     no route in DNS     delivery/attempt/outcome.ts ────────────────────────────┘
 *
 * delivery/attempt/outcome.ts applies a Classification to an attempt (bounced or deferred), inbound/consequence.ts
 * applies it to a report. A bounce report always makes the recipient `bounced`, even if the meaning is temporary.
 * EVENT_OF_STATUS (core/events.ts) lists the event of each status.
 */
import type { Category } from '../../core/statuses.ts';

export type { Category };

/** Who can solve the problem. `us` is the operator of this service, `sender` its user. */
export type Blame = 'recipient' | 'receiver' | 'sender' | 'us';

/** The reason why an email ended or is deferred, as the API shows it. */
export type Reason = {
  category: Category;
  blame: Blame;
  advice: string;
};

export type Meaning = Reason & {
  /** A permanent reply suppresses the address. A wrong suppression is worse than another bounce. */
  suppress?: true;
  suppressDays?: number;
  /** The provider asks for fewer connections. */
  slowDown?: true;
  /** Temporary even after a 5xx: the email is retried slowly and does not bounce. */
  isTemporary?: true;
};

/** The consequences of a meaning; a string is the advice alone. */
type Details = string | Omit<Meaning, 'category' | 'blame'>;

function meanings<Name extends string>(
  category: Category,
  blame: Blame,
  names: Readonly<Record<Name, Details>>,
): Record<Name, Meaning> {
  const entries = Object.entries<Details>(names).map(([name, details]) => {
    const consequences = typeof details === 'string' ? { advice: details } : details;
    return [name, { category, blame, ...consequences }];
  });
  return Object.fromEntries(entries) as Record<Name, Meaning>;
}

export const MEANINGS = {
  ...meanings('mailbox', 'recipient', {
    no_such_mailbox: {
      advice: 'The mailbox does not exist: check the address for a typing mistake.',
      suppress: true,
    },
    mailbox_disabled: {
      advice: 'The mailbox has been closed or disabled: ask the recipient for another address.',
      suppress: true,
    },
    mailbox_paused: 'The mailbox is temporarily closed: ask the recipient, or send again later.',
    mailbox_moved: {
      advice: 'The mailbox has moved: ask the recipient for the new address.',
      suppress: true,
    },
    bad_address: {
      advice: "The recipient's server does not accept this as an address: check its spelling.",
      suppress: true,
    },
    no_such_domain: {
      advice: 'The domain does not exist: check the address for a typing mistake.',
      suppress: true,
      suppressDays: 7,
    },
    domain_takes_no_mail: 'The domain declares that it accepts no mail: use another address.',
  }),
  ...meanings('mailbox', 'receiver', {
    mailbox_problem:
      "The recipient's server could not use the mailbox: ask the recipient whether it works.",
  }),
  ...meanings('policy', 'recipient', {
    not_allowed_to_recipient:
      'The recipient accepts mail from chosen senders only: ask the recipient to allow your address.',
  }),
  ...meanings('quota', 'recipient', {
    mailbox_full: 'The mailbox is full: the recipient has to delete some mail.',
    mailbox_too_busy: {
      advice:
        'The mailbox receives more mail than its provider allows: send fewer emails to it, or send later.',
      isTemporary: true,
    },
  }),
  ...meanings('greylist', 'receiver', {
    greylisted: {
      advice: 'The server makes new senders wait; no action is needed.',
      isTemporary: true,
    },
  }),
  ...meanings('policy', 'us', {
    rate_limited: {
      advice:
        'The provider accepts less mail at a time from this server; sending slows down automatically.',
      slowDown: true,
      isTemporary: true,
    },
  }),
  ...meanings('reputation', 'us', {
    blocked_for_now: {
      advice:
        'The provider blocks this server temporarily because of complaints or sudden volume; sending slows down automatically.',
      slowDown: true,
      isTemporary: true,
    },
    low_reputation: {
      advice:
        "The provider distrusts this server's IP address or the domain: check complaints and the provider's postmaster page.",
      slowDown: true,
    },
    blocklisted:
      "This server's IP address or the domain is on a blocklist: follow the link in the reply to have it removed.",
    dynamic_address:
      'The provider classifies the sending IP address as a private connection: give it a PTR record of your own, or send through a relay.',
  }),
  ...meanings('authentication', 'us', {
    no_reverse_dns: 'Give the sending IP address a PTR record whose name resolves to the address.',
  }),
  ...meanings('policy', 'us', {
    bad_helo: 'Set LETTERHAUS_HOSTNAME to the name that the sending IP address resolves to.',
  }),
  ...meanings('authentication', 'sender', {
    not_authenticated:
      'SPF, DKIM or DMARC did not pass: verify the DNS records of the sending domain.',
  }),
  ...meanings('policy', 'sender', {
    sender_refused:
      'The server refuses the sending address or its domain: check that it can receive mail.',
    sender_unverified:
      'The server tried to verify the sender and was refused: check that mail to your return path is accepted.',
  }),
  ...meanings('authentication', 'sender', {
    sender_domain_unknown:
      'The server does not find the sending domain in DNS, or finds that it accepts no mail: give it an MX record.',
  }),
  ...meanings('content', 'sender', {
    spam: 'The server classified the message as spam: check its links, wording and recipients.',
    virus: 'The server found something dangerous in the message: check attachments and links.',
    attachment_refused: 'The server accepts no attachments of this kind: send a link instead.',
    bad_link: 'A link in the message leads to a site with a bad reputation: remove or replace it.',
    bad_format:
      'The server objects to the form of the message: check custom headers and attachments.',
    header_not_ascii:
      'The header of the message has characters outside of ASCII: encode its fields (RFC 2047).',
    header_repeated:
      'A header field that may occur only once occurs several times: remove the others.',
    header_missing:
      'The message lacks a header field that the server requires, such as From, Date or Message-ID: add it.',
    header_invalid:
      'A header field of the message is not valid: check custom headers and the addresses in From, To and Reply-To.',
    header_too_long:
      'The header of the message, or a field of it, is larger than the server accepts: shorten it.',
    date_invalid:
      'The Date of the message is missing, not valid or far from the current time: correct it.',
    bare_line_end: 'The message has a CR or LF on its own: end every line with CRLF.',
    line_too_long:
      'A line of the message is longer than 998 octets: wrap it, or encode the part as quoted-printable or base64.',
    octets_refused:
      'The message has NUL, control or 8-bit characters that the server does not accept: encode the part as quoted-printable or base64.',
    mime_invalid:
      'The MIME structure of the message is not valid: check its boundaries and encodings.',
    message_needs_smtputf8:
      'The server does not support SMTPUTF8, which the header of the message needs: use ASCII addresses in it and encode its other fields (RFC 2047).',
    too_big: 'The message is larger than the server accepts: send a link instead of an attachment.',
  }),
  ...meanings('policy', 'receiver', {
    refused_by_policy:
      "The server's policy refuses the message: read its reply, or ask its postmaster.",
    relay_denied:
      'The server says that it is not responsible for the domain: its MX records may be wrong.',
  }),
  ...meanings('policy', 'us', {
    no_ipv6:
      'The server accepts no mail over IPv6 from this host: give the sending server an IPv4 address.',
  }),
  ...meanings('tls', 'us', {
    tls_required: 'The server accepts mail over TLS only, and no TLS connection could be made.',
  }),
  ...meanings('authentication', 'us', {
    login_refused: 'The relay refuses the log-in: check user and password in LETTERHAUS_RELAY_URL.',
  }),
  ...meanings('network', 'receiver', {
    server_problem: "The recipient's server is overloaded or out of order; no action is needed.",
    routing_problem: "The recipient's servers could not forward the message to each other.",
    loop: "The recipient's servers send the message in a loop: inform their postmaster.",
  }),
  ...meanings('protocol', 'us', {
    not_understood:
      'The server did not understand the dialogue: please report the transcript as a bug.',
    too_many_recipients: {
      advice: 'The server limits recipients per period; the email will be retried.',
      slowDown: true,
    },
  }),
  ...meanings('protocol', 'receiver', {
    no_smtputf8:
      "The recipient's server does not support SMTPUTF8, which an address with letters outside of ASCII needs: use an ASCII address of the recipient.",
  }),
  ...meanings('expired', 'receiver', {
    gave_up_elsewhere: 'Another server accepted the email and could not deliver it in time.',
  }),
  ...meanings('policy', 'us', {
    session_refused:
      "The server refuses connections from this server's IP address; other servers and later attempts may succeed.",
  }),
  ...meanings('policy', 'receiver', {
    unknown_permanent:
      'The server refused permanently, for a reason that is not recognised: read its reply.',
  }),
  ...meanings('network', 'receiver', {
    unknown_temporary:
      'The server could not accept the message just now; the email will be retried.',
  }),
  ...meanings('network', 'receiver', {
    // Failures without a usable reply: only the connection is known.
    unreachable: "The recipient's mail server cannot be reached; the email will be retried.",
    connection_lost:
      "The recipient's mail server stopped answering or closed the connection; the email will be retried.",
    lost_in_doubt:
      'The connection was lost before the server confirmed the message: it may have arrived, and will be retried with the same Message-ID.',
  }),
  ...meanings('protocol', 'receiver', {
    protocol_violated: 'The server violates the SMTP protocol; the email will be retried.',
  }),
  ...meanings('tls', 'receiver', {
    no_tls: 'No TLS connection could be made: the server must offer TLS with a valid certificate.',
  }),
  ...meanings('network', 'us', {
    lease_lost:
      'Another worker reclaimed the email before the message was sent; no action is needed.',
  }),
  ...meanings('mailbox', 'recipient', {
    // The result of DNS; see also no_such_domain and domain_takes_no_mail.
    no_mail_host: 'The domain exists but has no mail server: use another address.',
  }),
  ...meanings('policy', 'receiver', {
    no_public_host:
      'No mail server of the domain has a public address: its owner must publish one.',
  }),
  ...meanings('network', 'receiver', {
    dns_unavailable:
      'The name servers of the domain gave no usable answer; the email will be retried.',
  }),
  ...meanings('policy', 'receiver', {
    returned_without_reason:
      'Another server returned the email for a reason that is not recognised.',
  }),
};

export type MeaningName = keyof typeof MEANINGS;

/** The reason of a complaint, which a provider sends for the recipient. It is not a refusal. */
export const COMPLAINT = {
  category: 'reputation',
  blame: 'sender',
  advice: 'The recipient reported the email as spam; do not mail this address again.',
} as const satisfies Reason;

export type Classification = Reason & {
  /** No retry can succeed. After an attempt the recipient is bounced; without this it is deferred. */
  permanent: boolean;
  suppress: boolean;
  suppressDays?: number;
  /** Counts towards the suppression of a full mailbox (suppressions/suppression-store.ts). */
  mailboxFull?: true;
  slowDown?: true;
  /** The reply was a 5xx, so the first retries wait longer (core/retry.ts). */
  retrySlowly?: true;
};

/** Returns what follows from a meaning. `isPermanent`: the reply was a 5xx, or the report says so. */
export function classificationOf(
  name: MeaningName,
  { isPermanent }: { isPermanent: boolean },
): Classification {
  const meaning: Meaning = MEANINGS[name];
  const permanent = isPermanent && meaning.isTemporary !== true;
  const suppress = permanent && meaning.suppress === true;
  const { suppressDays } = meaning;
  return {
    ...reasonOf(meaning),
    permanent,
    suppress,
    ...(suppress && suppressDays !== undefined && { suppressDays }),
    ...(permanent && meaning.category === 'quota' && { mailboxFull: true }),
    ...(meaning.slowDown === true && { slowDown: true }),
    ...(isPermanent && !permanent && { retrySlowly: true }),
  };
}

export function reasonOf({ category, blame, advice }: Reason): Reason {
  return { category, blame, advice };
}
