/**
 * The meanings of a refusal and the consequences of each, in one table for all sources:
 *
 *     a server's reply       rules.ts, the first rule that matches ────────────────┐
 *     no usable reply        classify.ts ──────────────────────────────────────────┤
 *     a bounce report        the same rules, and mail/reports/classify-report.ts ───────┼── MEANINGS ── verdictOf
 *     no route in DNS        delivery/attempt/outcome.ts ──────────────────────────────────┘
 *
 * delivery/attempt/outcome.ts applies a Verdict to an attempt (bounced or deferred), inbound/consequence.ts to a
 * report. A bounce report always makes the recipient `bounced`, even if the meaning here is temporary.
 * EVENT_OF_STATUS in core/events.ts has the event of each status.
 */

export type Category =
  | 'mailbox'
  | 'quota'
  | 'greylist'
  | 'policy'
  | 'reputation'
  | 'content'
  | 'authentication'
  | 'network'
  | 'tls'
  | 'protocol'
  | 'expired';

/** Who can solve the problem: `us` is the operator of this service, `sender` its user. */
export type Blame = 'recipient' | 'receiver' | 'sender' | 'us';

/** Why an email ended or is deferred, as the API shows it. */
export type Reason = {
  category: Category;
  blame: Blame;
  /** One sentence for the sender of the email. */
  advice: string;
};

export type Meaning = Reason & {
  /**
   * A permanent reply puts the address on the suppression list. Only for meanings that concern the mailbox
   * itself: a wrong suppression costs more than another bounce.
   */
  suppress?: true;
  suppressDays?: number;
  /** The provider requests fewer connections. */
  slowDown?: true;
  /** Temporary, although some servers send a 5xx: such a reply is retried, slowly, and does not bounce. */
  passes?: true;
};

/** A meaning that has nothing but advice is a text. */
type Consequences = string | Omit<Meaning, 'category' | 'blame'>;

function meanings<Name extends string>(
  category: Category,
  blame: Blame,
  names: Readonly<Record<Name, Consequences>>,
): Record<Name, Meaning> {
  const entries = Object.entries<Consequences>(names).map(([name, how]) => {
    const rest = typeof how === 'string' ? { advice: how } : how;
    return [name, { category, blame, ...rest }];
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
    mailbox_paused:
      'The mailbox is closed for the time being: ask the recipient, or send again later.',
    mailbox_moved: {
      advice: 'The mailbox has moved: ask the recipient for the new address.',
      suppress: true,
    },
    bad_address: {
      advice: "The recipient's server does not take this for an address: check its spelling.",
      suppress: true,
    },
    no_such_domain: {
      advice: 'The domain does not exist: look for a typing mistake in the address.',
      suppress: true,
      suppressDays: 7,
    },
    domain_takes_no_mail: 'The domain says that it takes no mail: use another address.',
  }),
  ...meanings('mailbox', 'receiver', {
    mailbox_problem:
      "The recipient's server could not use the mailbox: ask the recipient if it works.",
  }),
  ...meanings('policy', 'recipient', {
    not_allowed_to_recipient:
      'The recipient takes mail from chosen senders only: ask to be let in.',
  }),
  ...meanings('quota', 'recipient', {
    mailbox_full: 'The mailbox is full: the recipient has to make room.',
    mailbox_too_busy: {
      advice: 'The mailbox receives more mail than its provider allows: send it less or later.',
      passes: true,
    },
  }),
  ...meanings('greylist', 'receiver', {
    greylisted: {
      advice: 'The server makes new senders wait; nothing has to be done.',
      passes: true,
    },
  }),
  ...meanings('policy', 'us', {
    rate_limited: {
      advice:
        'The provider wants less mail at a time from this server; sending slows down by itself.',
      slowDown: true,
      passes: true,
    },
  }),
  ...meanings('reputation', 'us', {
    blocked_for_now: {
      advice:
        'The provider blocks this server temporarily because of complaints or sudden volume; sending slows down by itself.',
      slowDown: true,
      passes: true,
    },
    low_reputation: {
      advice:
        "The provider distrusts this server's IP address or the domain: look at complaints and at the provider's postmaster page.",
      slowDown: true,
    },
    blocklisted:
      "This server's IP address or the domain is on a blocklist: follow the link in the answer to have it removed.",
    dynamic_address:
      'The provider takes the sending IP address for that of a private connection: give it a PTR record of your own, or send through a relay.',
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
    spam: 'The server takes the message for spam: look at its links, wording and recipients.',
    virus: 'The server found something dangerous in the message: check attachments and links.',
    attachment_refused: 'The server takes no attachments of this kind: send a link instead.',
    bad_link: 'A link in the message leads to a site with a bad reputation: remove or replace it.',
    bad_format:
      'The server objects to the form of the message: check custom headers and attachments.',
    header_not_ascii:
      'The header of the message has characters outside of ASCII: encode its fields (RFC 2047).',
    header_repeated:
      'A header field that may occur only once occurs several times: remove the others.',
    header_missing:
      'The message lacks a header field that the server asks for, such as From, Date or Message-ID: add it.',
    header_invalid:
      'A header field of the message is not valid: check custom headers and the addresses in From, To and Reply-To.',
    header_too_long:
      'The header of the message, or a field of it, is larger than the server takes: shorten it.',
    date_invalid:
      'The Date of the message is missing, not valid or far from the present time: correct it.',
    bare_line_end: 'The message has a CR or LF that stands alone: end every line with CRLF.',
    line_too_long:
      'A line of the message is longer than 998 octets: wrap it, or encode the part as quoted-printable or base64.',
    octets_refused:
      'The message has NUL, control or 8-bit characters that the server does not take: encode the part as quoted-printable or base64.',
    mime_invalid:
      'The MIME structure of the message is not valid: check its boundaries and encodings.',
    message_needs_smtputf8:
      'The server does not support SMTPUTF8, which the header of the message needs: use ASCII addresses in it and encode its other fields (RFC 2047).',
    too_big: 'The message is larger than the server takes: send a link instead of an attachment.',
  }),
  ...meanings('policy', 'receiver', {
    refused_by_policy:
      "The server's rules refuse the message; its answer says more, or its postmaster does.",
    relay_denied:
      'The server says that it is not responsible for the domain: its MX records may be wrong.',
  }),
  ...meanings('policy', 'us', {
    no_ipv6:
      'The server takes no mail over IPv6 from here: give the sending server an IPv4 address.',
  }),
  ...meanings('tls', 'us', {
    tls_required: 'The server takes mail over TLS only, and no TLS came about.',
  }),
  ...meanings('authentication', 'us', {
    login_refused: 'The relay refuses the login: check user and password in LETTERHAUS_RELAY_URL.',
  }),
  ...meanings('network', 'receiver', {
    server_problem:
      "The recipient's server is overloaded or out of order; nothing has to be done here.",
    routing_problem: "The recipient's servers could not pass the message on among themselves.",
    loop: "The recipient's servers send the message in a loop: inform their postmaster.",
  }),
  ...meanings('protocol', 'us', {
    not_understood:
      'The server did not understand the dialogue: please report the transcript as a bug.',
    too_many_recipients: {
      advice: 'The server takes fewer recipients at a time; it is tried again.',
      slowDown: true,
    },
  }),
  ...meanings('protocol', 'receiver', {
    no_smtputf8:
      "The recipient's server does not support SMTPUTF8, which an address with letters outside of ASCII needs: use an ASCII address of the recipient.",
  }),
  ...meanings('expired', 'receiver', {
    gave_up_elsewhere: 'A server on the way gave up after trying for too long.',
  }),
  ...meanings('policy', 'us', {
    session_refused:
      "The server does not talk to this server's IP address; other servers and times are tried.",
  }),
  ...meanings('policy', 'receiver', {
    unknown_permanent:
      'The server refused for good without a reason that is known: read its answer.',
  }),
  ...meanings('network', 'receiver', {
    unknown_temporary: 'The server could not take the message just now; it is tried again.',
  }),
  ...meanings('network', 'receiver', {
    // No usable reply: only the connection is known.
    unreachable: "The recipient's mail server cannot be reached; it is tried again.",
    fell_silent: "The recipient's mail server fell silent or hung up; it is tried again.",
    lost_in_doubt:
      'The connection was lost before the server confirmed the message: it may have arrived, and is tried again with the same Message-ID.',
  }),
  ...meanings('protocol', 'receiver', {
    spoke_nonsense: 'The server violates the SMTP protocol; it is tried again.',
  }),
  ...meanings('tls', 'receiver', {
    no_tls: 'No TLS connection came about: the server has to offer it with a valid certificate.',
  }),
  ...meanings('network', 'us', {
    taken_over:
      'Another worker reclaimed the email before the message was sent; nothing has to be done.',
  }),
  ...meanings('mailbox', 'recipient', {
    // DNS has no mail server; see also no_such_domain and domain_takes_no_mail.
    no_mail_host: 'The domain exists but has no mail server: use another address.',
  }),
  ...meanings('policy', 'receiver', {
    no_public_host:
      'The domain names only mail servers at addresses that are not public; its owner has to publish a public one.',
  }),
  ...meanings('network', 'receiver', {
    dns_unavailable: 'Name servers did not answer usefully; it will be tried again.',
  }),
  ...meanings('policy', 'receiver', {
    // A report without a reason.
    returned_without_reason:
      'A server on the way sent the email back without a reason that is understood.',
  }),
};

export type MeaningName = keyof typeof MEANINGS;

/** Not a refusal: the recipient's complaint, sent by the provider. */
export const COMPLAINT = {
  category: 'reputation',
  blame: 'sender',
  advice: 'The recipient reported the email as spam; do not mail this address again.',
} as const satisfies Reason;

export type Verdict = Reason & {
  /** A retry cannot succeed. After an attempt the recipient is bounced, otherwise deferred. */
  permanent: boolean;
  suppress: boolean;
  suppressDays?: number;
  /** Counts towards suppressing a full mailbox (suppressions/suppression-store.ts). */
  mailboxFull?: true;
  /** The provider requests fewer connections. */
  slowDown?: true;
  /** Retried, but not within minutes, because the reply was a 5xx (core/retry.ts). */
  retrySlowly?: true;
};

/**
 * The verdict of a meaning.
 * @param saidPermanent the reply was a 5xx; some meanings are temporary nevertheless
 */
export function verdictOf(
  name: MeaningName,
  { saidPermanent }: { saidPermanent: boolean },
): Verdict {
  const meaning: Meaning = MEANINGS[name];
  const permanent = saidPermanent && meaning.passes !== true;
  const suppress = permanent && meaning.suppress === true;
  const { suppressDays } = meaning;
  return {
    ...reasonOf(meaning),
    permanent,
    suppress,
    ...(suppress && suppressDays !== undefined && { suppressDays }),
    ...(permanent && meaning.category === 'quota' && { mailboxFull: true }),
    ...(meaning.slowDown === true && { slowDown: true }),
    ...(saidPermanent && !permanent && { retrySlowly: true }),
  };
}

export function reasonOf({ category, blame, advice }: Reason): Reason {
  return { category, blame, advice };
}
