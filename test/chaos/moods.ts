/**
 * What a receiving server does when it is not well: rows 18 to 28 of the list of faults, one object
 * each. A message that a server keeps counts as received, whatever it answers.
 */
import type { FakePhase, MxBehaviour } from '../support/fake-mx.ts';

const REFUSALS: Readonly<Record<string, MxBehaviour>> = Object.fromEntries(
  (
    [
      ['greeting', '421 4.3.2 Too busy'],
      ['greeting', '554 5.3.2 Nobody here'],
      ['ehlo', '421 4.3.2 Too busy'],
      ['ehlo', '502 5.5.1 What is EHLO?'],
      ['mail', '451 4.3.0 Not now'],
      ['mail', '550 5.7.1 Not from you'],
      ['rcpt', '450 4.2.1 Mailbox busy'],
      ['rcpt', '552 5.2.2 Mailbox full'],
      ['rcpt', '421 4.7.0 Too many'],
      ['data', '451 4.3.0 Not now'],
      ['data', '554 5.6.0 No data'],
      ['data', '250 2.0.0 What?'],
      ['dot', '451 4.3.0 Not now'],
      ['dot', '554 5.6.0 Not this'],
      ['dot', '421 4.3.2 Going down'],
    ] as const
  ).map(([phase, reply]) => [`${phase} ${reply.slice(0, 3)}`, { phases: { [phase]: reply } }]),
);

const PHASES: readonly FakePhase[] = ['greeting', 'ehlo', 'mail', 'rcpt', 'data', 'body', 'dot'];

/** As a crashed machine hangs up, and as a polite one does, wherever the dialogue is. */
const DROPS: Readonly<Record<string, MxBehaviour>> = Object.fromEntries(
  PHASES.flatMap((phase) =>
    (['rst', 'fin'] as const).map((drop) => [
      `${drop} at ${phase}`,
      { phases: { [phase]: { drop } } },
    ]),
  ),
);

const OK = '250 2.0.0 Taken';

const DOUBTS: Readonly<Record<string, MxBehaviour>> = {
  'kept and never answered': { phases: { dot: { keep: true } } },
  'kept and reset': { phases: { dot: { keep: true, drop: 'rst' } } },
  'kept and answered a byte at a time': {
    phases: { dot: { keep: true, reply: OK, dripMs: 400 } },
  },
  'never answered': { phases: { dot: {} } },
};

const NONSENSE: Readonly<Record<string, MxBehaviour>> = {
  'zero bytes': { phases: { ehlo: { raw: Buffer.alloc(512) } } },
  'not UTF-8': { phases: { mail: { raw: Buffer.from('250 \xff\xfe\xfd ok\r\n', 'latin1') } } },
  'an endless line': { phases: { greeting: { raw: 'x'.repeat(65_536), times: 160 } } },
  'an endless reply': { phases: { ehlo: { raw: '250-x\r\n'.repeat(1_000), times: 100 } } },
  'a reply before the command': { phases: { greeting: '220 fake.test\n250 2.0.0 Already' } },
  'two replies': { phases: { mail: '250 2.1.0 Ok\n250 2.1.0 Ok again' } },
  garbage: { phases: { rcpt: { raw: '\u0007\u0000 what\r\n' } } },
};

const SLOWNESS: Readonly<Record<string, MxBehaviour>> = {
  'slow greeting': { phases: { greeting: { reply: '220 fake.test ESMTP', dripMs: 40 } } },
  'slow answer': { phases: { dot: { reply: OK, dripMs: 40 } } },
  silence: { phases: { mail: {} } },
  'reading no further': { phases: { body: {} } },
};

const ABILITIES: Readonly<Record<string, MxBehaviour>> = {
  'no pipelining': { pipelining: false },
  'too small': { sizeBytesMax: 100 },
  'broken TLS': { startTls: 'broken' },
  'refused TLS': { startTls: 'refused' },
  'injected TLS': { startTls: 'injected' },
  'silent TLS': { startTls: 'silent' },
  'self-signed TLS': { startTls: 'offered', certificate: 'self-signed' },
  'expired TLS': { startTls: 'offered', certificate: 'expired' },
};

export const MOODS: Readonly<Record<string, MxBehaviour>> = {
  ...REFUSALS,
  ...DROPS,
  ...DOUBTS,
  ...NONSENSE,
  ...SLOWNESS,
  ...ABILITIES,
};
