/**
 * Classifies a report about a recipient. A report is a reply that arrives later, through other servers, so the rules
 * for replies apply (mail/replies/rules.ts). If the report quotes no reply, REPORT_RULES below match the mail
 * system's own text first.
 *
 * The same restrictions apply. Only a permanent refusal suppresses, if a rule recognises that it concerns the
 * mailbox. Replies before RCPT (greeting, HELO, MAIL) never concern the mailbox. A delay is never permanent.
 */
import { meaningOf } from '../replies/classify.ts';
import { type PhaseReply, type Rule, findRule, rulesFor } from '../replies/rule-matching.ts';
import {
  MEANINGS,
  type MeaningName,
  type Classification,
  classificationOf,
} from '../replies/meanings.ts';
import { RULES } from '../replies/rules.ts';
import type { SmtpPhase, SmtpReply } from '../replies/smtp-reply.ts';

type Reported = {
  /** Texts in the order of certainty that they concern this recipient; '' for none. */
  texts: readonly string[];
  /** The enhanced status of the report itself. */
  status: string | null;
  isDelay: boolean;
};

export type Classified = {
  classification: Classification;
  status: string | null;
  /** The code of the deciding reply, or null when no server replied. */
  code: number | null;
};

const TEXT_CHARS_MAX = 4_000;
const REPLIES_MAX = 12;
/** Meanings of replies that only follow from an earlier reply. */
const FOLLOWS_FROM_ANOTHER: ReadonlySet<MeaningName> = new Set([
  'too_many_recipients',
  'not_understood',
]);
const ENHANCED = /(?<![\d.])([45]\.\d{1,3}\.\d{1,3})(?![\d.]*\d)/;
/** A reply code, but not a number of seconds, a port, or a part of an address or version. */
const REPLY =
  /(?:^|[\s:;([<>"'=#])([45]\d\d)(?=[\s:;,#<-]|$)(?!\s*(?:sec|min|hour|day|byte|octet|kb|mb|message|recipient))/gi;
const PHASES: readonly [SmtpPhase, RegExp][] = [
  [
    'data',
    /end of (?:data|message|mail)|end-of-data|after (?:i sent|sending) (?:the )?(?:data|message)/i,
  ],
  ['data', /(?:to|after|following|our) data\b|data command|after pipelined data|message body/i],
  [
    'mail',
    /(?:to|after|following|our|pipelined) mail\b|mail from command|like sender|sender was rejected/i,
  ],
  ['mail', /initial connection|greeting|\b(?:helo|ehlo)\b|refused to talk to (?:me|us)/i],
];

export function classifyReported({ texts, status, isDelay }: Reported): Classified {
  const quotedTexts = texts
    .filter((text) => text !== '')
    .map((text) => text.slice(0, TEXT_CHARS_MAX));
  const { meaning, isPermanent, ...rest } =
    readFirstRecognised(quotedTexts, status) ?? readBareCode(quotedTexts, status);
  return {
    classification: classificationOf(meaning, { isPermanent: isPermanent && !isDelay }),
    ...rest,
  };
}

type Reading = Pick<Classified, 'status' | 'code'> & {
  meaning: MeaningName;
  isPermanent: boolean;
};

function readFirstRecognised(texts: readonly string[], status: string | null): Reading | null {
  for (const text of texts) {
    const reading = readText(text, status);
    if (reading !== null) return reading;
  }
  return null;
}

function readText(text: string, status: string | null): Reading | null {
  const replies = repliesIn(text);
  if (replies.length === 0) return readSystemText(text, status);
  for (const { reply, phase } of replies) {
    const enhancedCode = reply.enhancedCode ?? statusOfClass(status, reply.code);
    const reading = readReply({ phase, reply: { ...reply, enhancedCode } });
    if (reading !== null) return reading;
  }
  return null;
}

function statusOfClass(status: string | null, code: number): string | null {
  return status !== null && status.startsWith(`${Math.trunc(code / 100)}.`) ? status : null;
}

function readReply(phaseReply: PhaseReply): Reading | null {
  const rule = findRule(RULES, phaseReply);
  if (rule === undefined || FOLLOWS_FROM_ANOTHER.has(rule.meaning)) return null;
  return readingOf(rule.meaning, phaseReply.reply);
}

/** Any 5xx is permanent, even a 552 to RCPT, because the reporting server has given up. */
function readingOf(meaning: MeaningName, { code, enhancedCode }: SmtpReply): Reading {
  return { meaning, isPermanent: code >= 500, status: enhancedCode, code };
}

function readSystemText(text: string, status: string | null): Reading | null {
  const enhancedCode = codeIn(text) ?? status;
  const reply = { code: codeOf(enhancedCode), enhancedCode, message: text };
  const ownRule = findRule(REPORT_RULES, { phase: 'rcpt', reply });
  const reading =
    ownRule === undefined
      ? readReply({ phase: phaseIn(text), reply })
      : readRule(ownRule.meaning, reply);
  return reading && { ...reading, code: null };
}

/** After a network failure or an expired queue, a new attempt may succeed. */
function readRule(meaning: MeaningName, reply: SmtpReply): Reading {
  const { category } = MEANINGS[meaning];
  const mayPass = category === 'network' || category === 'expired';
  const reading = readingOf(meaning, reply);
  return { ...reading, isPermanent: reading.isPermanent && !mayPass };
}

/** Uses the code, wherever it occurs, when no rule matches. */
function readBareCode(texts: readonly string[], status: string | null): Reading {
  const [first] = texts.flatMap(repliesIn);
  const enhancedCode =
    first?.reply.enhancedCode ?? status ?? texts.map(codeIn).find((code) => code !== null) ?? null;
  const code = first?.reply.code ?? codeOf(enhancedCode);
  const reply = { code, enhancedCode, message: first?.reply.message ?? '' };
  const meaning = meaningOf({ phase: first?.phase ?? 'rcpt', reply });
  return { ...readingOf(meaning, reply), code: first?.reply.code ?? null };
}

function codeOf(enhancedCode: string | null): number {
  return enhancedCode?.startsWith('4') === true ? 450 : 550;
}

function codeIn(text: string): string | null {
  return ENHANCED.exec(text)?.[1] ?? null;
}

function repliesIn(text: string): PhaseReply[] {
  const replies: PhaseReply[] = [];
  const phase = phaseIn(text);
  const starts = Array.from(text.matchAll(REPLY)).slice(0, REPLIES_MAX);
  for (const [index, match] of starts.entries()) {
    const start = match.index + match[0].length;
    const code = Number(match[1]);
    // Each line of a reply repeats its code.
    let next = index + 1;
    while (Number(starts[next]?.[1]) === code && isContinued(text, starts[next - 1]!)) next += 1;
    const end = starts[next]?.index ?? text.length;
    const message = text.slice(start, end).replace(new RegExp(`\\b${code}-`, 'g'), ' ');
    const reply = { code, enhancedCode: codeIn(message), message: withoutCode(message) };
    replies.push({ reply, phase });
  }
  return replies;
}

function isContinued(text: string, match: RegExpExecArray): boolean {
  return text[match.index + match[0].length] === '-';
}

function withoutCode(message: string): string {
  return message
    .replace(/(?<![\d.])[45]\.\d{1,3}\.\d{1,3}(?![\d.]*\d)/g, ' ')
    .replace(/^[\s:;,#-]+(?=[\w<])/, '')
    .trim();
}

/** Returns the step to which the server replied, if the report names it; else RCPT. */
function phaseIn(text: string): SmtpPhase {
  return PHASES.find(([, pattern]) => pattern.test(text))?.[0] ?? 'rcpt';
}

/**
 * Rules for a mail system's own text, when no server replied or the system itself refuses the message. All match by
 * text. mail/replies/rules.ts (CODES) and mail/replies/mailbox.ts (BY_CODE) map statuses such as 5.1.1. They do not
 * apply to a quoted reply, where `host not found` mostly concerns the sender. The first match counts. `example` is
 * the text of a report; read-report.test.ts checks every one.
 */
export const REPORT_RULES: readonly Rule[] = [
  ...rulesFor('loop', {
    'Sorry, this message is looping: it already has my Delivered-To line.':
      'too many hops | mail loop | loop detected | looping | hop count | loops back to myself | maximum number of hops',
    'host is a CNAME that points back to me':
      'points back to me | excessive recursion | circular alias | message has traversed',
  }),
  ...rulesFor('sender_unverified', {
    // A server that verified our return path quotes the reply.
    'Sender verify failed: no such user here':
      'sender verif | verify sender | sender not verified | sender unverified | sender address rejected | sender callout | sender could not be verified | sender address could not be verified | sender cannot be verified',
  }),
  ...rulesFor('relay_denied', {
    'This host is in my MX list, but not in my control/locals file':
      'locally but not in | not in my control/locals | relay not permitted | relaying denied',
  }),
  ...rulesFor('mailbox_full', {
    'The mailbox is full.':
      'mailbox is full | mailbox full | over quota | quota exceed | exceeded quota | quota has been',
    'User mailbox exceeds allowed size: jo':
      'mailbox quota | disk quota | allowed size | storage limit | disc quota | exceeded + mailbox | mailbox + exceeded',
    'The account is full.':
      'account is full | too much mail data | quota-limit | quota limit | out of quota | over its quota',
    '\u5bb9\u91cf\u3092\u8d85\u3048\u3066\u3044\u307e\u3059':
      '\u5bb9\u91cf | \u30e1\u30fc\u30eb\u30dc\u30c3\u30af\u30b9\u304c\u4e00\u676f | speicherplatz | bo\u00eete pleine',
  }),
  ...rulesFor('too_big', {
    'message size 52428800 exceeds size limit 10240000 of server mx.acme.test':
      'message size | message too large | message too big | message is too large | maximum size | size limit',
  }),
  ...rulesFor('spam', {
    'Your message looks like spam.':
      'as spam | is spam | spam content | spam filter | looks like spam | unsolicited',
  }),
  ...rulesFor('virus', {
    'The message is infected': 'virus | infected | malware | malicious',
  }),
  ...rulesFor('routing_problem', {
    'Host or domain name not found. Name service error: Host not found, try again':
      'host not found, try again | temporary name | temporary dns | dns timeout | name server timeout | dns lookup fail',
    'host lookup did not complete':
      'temporarily unable to look up | temporary lookup | servfail | cname lookup failed | host lookup did not complete',
  }),
  ...rulesFor('domain_takes_no_mail', {
    'Domain acme.test does not accept mail (nullMX)':
      'null mx | nullmx | does not accept mail | (mx 0 .)',
  }),
  ...rulesFor('no_such_domain', {
    "Sorry, I couldn't find any host named acme.test. (#5.1.2)":
      "host or domain name not found | couldn't find any host | could not find any host | no such host | find the host",
    'all hosts: host not found':
      'host unknown | unknown host | host not found | name or service not known | unrouteable mail domain | unrouteable domain',
    'DNS lookup of acme.test: NXDOMAIN':
      'no such domain | domain does not exist | domain not found | nxdomain | non-existent domain | domain name not found',
    'all relevant MX records point to non-existent hosts':
      'unknown domain | invalid domain | bad destination host | illegal host/domain | non-existent host | no mx or a record',
    "The domain acme.test couldn't be found.":
      "domain couldn't be found | domain + couldn't be found | non esistente + dominio | no valid mail server | name service error",
  }),
  ...rulesFor('gave_up_elsewhere', {
    'retry timeout exceeded':
      'retry timeout exceeded | retry time not reached | queue too long | giving up after | expired',
    'Could not deliver for the last 432000 seconds. Giving up.':
      'for the last + seconds | multiple retries | not delivered within | tried for too | time limit | too old | been trying',
  }),
  ...rulesFor('unreachable', {
    'connect to mx.acme.test[192.0.2.1]:25: Connection refused':
      'connection refused | connection timed out | connection reset | operation timed out | no route to host | timed out',
    'Network error on destination MXs':
      'unreachable | network error | unable to connect | could not connect | cannot connect | requests to connect | socket error',
    "Sorry, I wasn't able to establish an SMTP connection. (#4.4.1)":
      'establish an smtp | not reachable | not responding | connection died | lost connection | connection failed | failed to connect',
    'The connection with mx.acme.test failed':
      'connection closed | conversation + failed | connection was dropped | connection with + failed | no connection',
  }),
  ...rulesFor('server_problem', {
    'Unable to contact LDAP server.':
      'ldap | configuration error | system error | out of memory | internal error | i/o error | temporary failure',
    // A filter or script of the recipient.
    'Command died with status 255: "/usr/local/bin/filter"':
      'child process | command died | exit status | command failed | pipe to | returned status | unknown mailer error | procmail',
  }),
  ...rulesFor('mailbox_paused', {
    'The account is temporarily disabled':
      'temporarily disabled | temporarily suspended | temporarily inactive | temporarily deactivated',
  }),
  ...rulesFor('mailbox_disabled', {
    'The account has been closed.':
      'account disabled | account is disabled | mailbox disabled | mailbox is disabled | account has been | no longer active',
  }),
  ...rulesFor('mailbox_moved', {
    'The user has moved, no forwarding address':
      'has moved | moved to another | no longer has an account | address has changed',
  }),
  ...rulesFor('no_such_mailbox', {
    // Domino, and its release of 1998 in Japanese.
    'User jo (jo@acme.test) not listed in public Name & Address Book':
      'not listed in | not found in domino | not found in directory | \u30ea\u30b9\u30c8\u306b\u3042\u308a\u307e\u305b\u3093 | recipient name is not unique',
    // Exchange.
    'The e-mail account does not exist at the organization this message was sent to.':
      "recipient name is not recognized | account does not exist | wasn't found at | unknown recipient | was not found in",
    'unknown local-part "jo" in domain "acme.test"':
      'user unknown | unknown user | unknown local | no such user | no mailbox here | user not found | user does not exist',
    "This user doesn't have a acme.test account (jo@acme.test)":
      "doesn't have a | does not have a | mailbox not found | mailbox does not exist | not a valid mailbox | mailbox unknown",
    'Unrouteable address':
      'recipient unknown | unrouteable address | unroutable address | no such address | address does not exist | address unknown',
    'jo is not a known user':
      'not a known user | is not a registered | invalid recipient | no such account | unknown address | user is unknown',
  }),
];
