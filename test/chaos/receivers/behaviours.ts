/**
 * Failures of a receiving server, one object each. A message that a server keeps counts as received, whatever its reply
 * is.
 */
import type { FakePhase, MxBehaviour } from '../../support/fake-mx.ts';

export type ServerFault = {
  behaviour: MxBehaviour;
  /**
   * True when the failure may count as a reply about the message. Otherwise mail arrives once the server has recovered.
   */
  mayBounce?: true;
  /**
   * True when the failure needs large mail, because only a large message fills the socket buffers before it is sent.
   */
  isForLarge?: true;
};
type ServerFaults = Readonly<Record<string, ServerFault>>;

/** Milliseconds above the SMTP timeout of the nodes (stage.ts). LATE_MS is clearly below it. */
const TOO_LATE_MS = 6_000;
const LATE_MS = 2_500;

const REFUSALS: ServerFaults = Object.fromEntries(
  (
    [
      ['greeting', '421 4.3.2 Too busy'],
      ['greeting', '554 5.3.2 Nobody here'],
      ['ehlo', '421 4.3.2 Too busy'],
      ['ehlo', '502 5.5.1 What is EHLO?'],
      ['mail', '451 4.3.0 Not now'],
      ['mail', '550 5.7.1 Not from you', 'may bounce'],
      ['rcpt', '450 4.2.1 Mailbox busy'],
      ['rcpt', '550 5.1.1 No such user', 'may bounce'],
      ['rcpt', '552 5.2.2 Mailbox full', 'may bounce'],
      ['rcpt', '421 4.7.0 Too many'],
      ['data_command', '451 4.3.0 Not now'],
      ['data_command', '554 5.6.0 No data', 'may bounce'],
      ['data_command', '250 2.0.0 What?'],
      ['data', '451 4.3.0 Not now'],
      ['data', '554 5.6.0 Not this', 'may bounce'],
      ['data', '421 4.3.2 Going down'],
    ] as const
  ).map(([phase, reply, verdict]) => [
    `${phase} ${reply.slice(0, 3)}`,
    { behaviour: { phases: { [phase]: reply } }, ...(verdict && { mayBounce: true }) },
  ]),
);

const PHASES: readonly FakePhase[] = [
  'greeting',
  'ehlo',
  'mail',
  'rcpt',
  'data_command',
  'body',
  'data',
  'quit',
];

/** Hangs up at each step of the dialogue: with RST as a crashed machine does, and with FIN as a polite one does. */
const DROPS: ServerFaults = Object.fromEntries(
  PHASES.flatMap((phase) =>
    (['rst', 'fin'] as const).map((drop) => [
      `${drop} at ${phase}`,
      { behaviour: { phases: { [phase]: { drop } } } },
    ]),
  ),
);

const OK = '250 2.0.0 Taken';

/** Failures after the final dot. Each is also used by the better of two servers of a domain (domains.ts). */
export const AFTER_DOT: ServerFaults = {
  'kept and never answered': { behaviour: { phases: { data: { keep: true } } } },
  'kept and reset': { behaviour: { phases: { data: { keep: true, drop: 'rst' } } } },
  'kept and answered a byte at a time': {
    behaviour: { phases: { data: { keep: true, reply: OK, dripMs: 400 } } },
  },
  'kept and answered too late': {
    behaviour: { phases: { data: { keep: true, reply: OK, afterMs: TOO_LATE_MS } } },
  },
  'never answered': { behaviour: { phases: { data: {} } } },
};

const MALFORMED: ServerFaults = {
  'zero bytes': { behaviour: { phases: { ehlo: { raw: Buffer.alloc(512) } } } },
  'not UTF-8': {
    behaviour: {
      phases: { data: { keep: true, raw: Buffer.from('250 \xff\xfe\xfd ok\r\n', 'latin1') } },
    },
  },
  'an endless line': {
    behaviour: { phases: { greeting: { raw: 'x'.repeat(65_536), times: 160 } } },
  },
  'an endless reply': {
    behaviour: { phases: { ehlo: { raw: '250-x\r\n'.repeat(1_000), times: 100 } } },
  },
  'a reply before the command': {
    behaviour: { phases: { greeting: '220 fake.test\n250 2.0.0 Already' } },
  },
  'two replies': { behaviour: { phases: { mail: '250 2.1.0 Ok\n250 2.1.0 Ok again' } } },
  'two verdicts': { behaviour: { phases: { data: `${OK}\n${OK} again` } } },
  garbage: { behaviour: { phases: { rcpt: { raw: '\u0007\u0000 what\r\n' } } } },
};

/** Number of servers that accept connections and stay silent, each with its own domain and host. */
const NEVER_GREETING = 8;

const SLOW: ServerFaults = {
  'late greeting': {
    behaviour: { phases: { greeting: { reply: '220 fake.test ESMTP', afterMs: LATE_MS } } },
  },
  'greeting too late': {
    behaviour: { phases: { greeting: { reply: '220 fake.test ESMTP', afterMs: TOO_LATE_MS } } },
  },
  'late verdict': { behaviour: { phases: { data: { reply: OK, afterMs: LATE_MS } } } },
  'greeting by bytes': {
    behaviour: { phases: { greeting: { reply: '220 fake.test ESMTP', dripMs: 40 } } },
  },
  'replies by bytes': { behaviour: { phases: { mail: { reply: '250 2.1.0 Ok', dripMs: 700 } } } },
  silence: { behaviour: { phases: { mail: {} } } },
  ...Object.fromEntries(
    Array.from({ length: NEVER_GREETING }, (_, n) => [
      `never greeting ${n + 1}`,
      { behaviour: { phases: { greeting: {} } } },
    ]),
  ),
  'reading no further': { behaviour: { phases: { body: {} } }, isForLarge: true },
  'reading slowly': { behaviour: { readPauseMs: 150 }, isForLarge: true },
};

const CAPABILITIES: ServerFaults = {
  'neither EHLO nor HELO': {
    behaviour: { phases: { ehlo: '502 5.5.1 What?', helo: '502 5.5.1 What?' } },
  },
  'no pipelining': { behaviour: { pipelining: false } },
  'no extensions': { behaviour: { pipelining: false, smtpUtf8: false }, mayBounce: true },
  'too small': { behaviour: { sizeBytesMax: 100 }, mayBounce: true },
  'broken TLS': { behaviour: { startTls: 'broken' } },
  'refused TLS': { behaviour: { startTls: 'refused' } },
  'injected TLS': { behaviour: { startTls: 'injected' } },
  'silent TLS': { behaviour: { startTls: 'silent' } },
  'outdated TLS': { behaviour: { startTls: 'outdated' } },
  'narrow TLS': { behaviour: { startTls: 'narrow' } },
  'reset TLS': { behaviour: { startTls: 'offered', phases: { starttls: { drop: 'rst' } } } },
  'self-signed TLS': { behaviour: { startTls: 'offered', certificate: 'self-signed' } },
  'expired TLS': { behaviour: { startTls: 'offered', certificate: 'expired' } },
  'other-name TLS': { behaviour: { startTls: 'offered', certificate: 'other-name' } },
};

export const SERVER_FAULTS: ServerFaults = {
  ...REFUSALS,
  ...DROPS,
  ...AFTER_DOT,
  ...MALFORMED,
  ...SLOW,
  ...CAPABILITIES,
};

/** Behaviours for mail with enforced TLS. While a server behaves like this, no mail may arrive. */
export const UNVERIFIED_TLS: Readonly<Record<string, MxBehaviour>> = {
  stripped: { startTls: 'absent' },
  refused: { startTls: 'refused' },
  broken: { startTls: 'broken' },
  'self-signed': { startTls: 'offered', certificate: 'self-signed' },
  expired: { startTls: 'offered', certificate: 'expired' },
  'other-name': { startTls: 'offered', certificate: 'other-name' },
};
