/** The lists of other services, as their exports and APIs write them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SuppressionReason } from '../suppressions/suppression-store.ts';
import { readEntries, ReasonNeeded, UnusableFile } from './entries.ts';

async function read(text: string | Uint8Array, reason: SuppressionReason | null = null) {
  async function* pieces() {
    yield Buffer.from(text);
  }
  const found = { format: null as string | null, entries: [] as unknown[][] };
  for await (const { format, entries } of readEntries(pieces(), reason)) {
    found.format = format ?? found.format;
    for (const { read: entry } of entries) {
      if ('problem' in entry) found.entries.push(['problem', entry.problem]);
      else if ('leftOut' in entry) found.entries.push(['left out', entry.leftOut]);
      else {
        const { address, reason: why, createdAt, expiresAt } = entry;
        const end = expiresAt === null ? [] : [expiresAt.toISOString()];
        found.entries.push([address, why, createdAt?.toISOString() ?? null, ...end]);
      }
    }
  }
  return found;
}

const refusal = (text: string | Uint8Array): Promise<Error> =>
  read(text).then(
    () => assert.fail('it was read'),
    (error: unknown) => (error instanceof UnusableFile ? error : assert.fail(String(error))),
  );

test("Resend's list has the origin of each entry, as JSON and as CSV", async () => {
  const page = {
    object: 'list',
    has_more: false,
    data: [
      {
        object: 'suppression',
        id: 'e169aa45-1ecf-4183-9955-b1499d5701d3',
        email: 'ann@acme.test',
        origin: 'bounce',
        source_id: null,
        created_at: '2026-10-06T23:47:56.678Z',
      },
      { email: 'ben@acme.test', origin: 'complaint', created_at: '2026-10-06 23:47:56.678+00' },
      { email: 'cara@acme.test', origin: 'other', created_at: null },
    ],
  };
  const { format, entries } = await read(JSON.stringify(page));
  assert.equal(format, 'resend');
  assert.deepEqual(entries.slice(0, 2), [
    ['ann@acme.test', 'hard_bounce', '2026-10-06T23:47:56.678Z'],
    ['ben@acme.test', 'complaint', '2026-10-06T23:47:56.678Z'],
  ]);
  assert.match(String(entries[2]![1]), /^origin: "other" is not one of bounce, complaint, manual/);
  const csv =
    'id,email,origin,source_id,created_at\n1,ann@acme.test,manual,,2026-10-06T23:47:56Z\n';
  assert.deepEqual(await read(csv), {
    format: 'resend',
    entries: [['ann@acme.test', 'manual', '2026-10-06T23:47:56.000Z']],
  });
});

test("Postmark's dump: the author of a suppression by hand decides between unsubscribe and manual", async () => {
  const entry = (name: string, reason: string, origin: string) => ({
    EmailAddress: `${name}@acme.test`,
    SuppressionReason: reason,
    Origin: origin,
    CreatedAt: '2019-12-17T08:58:33-05:00',
  });
  const dump = {
    Suppressions: [
      entry('ann', 'ManualSuppression', 'Recipient'),
      entry('ben', 'ManualSuppression', 'Customer'),
      entry('cara', 'HardBounce', 'Recipient'),
      entry('dan', 'SpamComplaint', 'Recipient'),
    ],
  };
  const at = '2019-12-17T13:58:33.000Z';
  const expected = {
    format: 'postmark',
    entries: [
      ['ann@acme.test', 'unsubscribe', at],
      ['ben@acme.test', 'manual', at],
      ['cara@acme.test', 'hard_bounce', at],
      ['dan@acme.test', 'complaint', at],
    ],
  };
  assert.deepEqual(await read(JSON.stringify(dump)), expected);
  const rows = dump.Suppressions.map((one) => Object.values(one).join());
  const csv = `RecipientEmail,SuppressionReason,Origin,CreatedAt\r\n${rows.join('\r\n')}`;
  assert.deepEqual(await read(csv), expected);
});

test("SendGrid's bounces and blocks suppress only for replies that would have done so here", async () => {
  const rows = [
    'ann@acme.test,1443651125,550 5.1.1 The email account that you tried to reach does not exist,5.1.1',
    'ben@acme.test,1443651125,"550 5.7.1 Our system has detected that this message is likely spam, so blocked",5.7.1',
    'cara@acme.test,1443651125,452 4.2.2 The mailbox is full,4.2.2',
    'dan@acme.test,1443651125,552 5.2.2 The mailbox is over quota,5.2.2',
    'eva@acme.test,1443651125,550 qqq,5.0.0',
    'finn@acme.test,1443651125,,5.1.1',
  ];
  const at = '2015-09-30T22:12:05.000Z';
  const leftOut = ['left out', 'not_permanent'];
  const csv = `email,created,reason,status\n${rows.join('\n')}\n`;
  const known = { format: 'sendgrid', entries: [['ann@acme.test', 'hard_bounce', at]] };
  const finn = ['finn@acme.test', 'hard_bounce', at];
  assert.deepEqual(await read(csv), {
    ...known,
    entries: [...known.entries, leftOut, leftOut, leftOut, leftOut, finn],
  });
  // An unknown reply counts as a hard bounce only on request. A known one is never overruled.
  const unknown = ['eva@acme.test', 'hard_bounce', at];
  assert.deepEqual(await read(csv, 'hard_bounce'), {
    ...known,
    entries: [...known.entries, leftOut, leftOut, leftOut, unknown, finn],
  });
  const bounce = {
    created: 1443651125,
    email: 'ann@acme.test',
    reason: '550 5.1.1 No such user',
    status: '5.1.1',
  };
  assert.deepEqual(await read(JSON.stringify([bounce])), known);
});

test('a domain that did not exist is suppressed for 7 days from the bounce on', async () => {
  const csv =
    'email,created,reason,status\nann@acme.test,1443651125,550 5.1.2 Host unknown: domain does not exist,5.1.2\n';
  assert.deepEqual((await read(csv)).entries, [
    ['ann@acme.test', 'hard_bounce', '2015-09-30T22:12:05.000Z', '2015-10-07T22:12:05.000Z'],
  ]);
});

test("columns or the given reason distinguish SendGrid's spam reports from unsubscribes", async () => {
  const reports = JSON.stringify([
    { created: 1443651141, email: 'ann@acme.test', ip: '10.63.202.100' },
  ]);
  const at = '2015-09-30T22:12:21.000Z';
  assert.deepEqual((await read(reports)).entries, [['ann@acme.test', 'complaint', at]]);
  const either = 'email,created\nann@acme.test,1443651141\n';
  const error = await refusal(either);
  assert.ok(error instanceof ReasonNeeded);
  assert.match(error.message, /list of SendGrid for the reason complaint or unsubscribe/);
  assert.deepEqual((await read(either, 'unsubscribe')).entries, [
    ['ann@acme.test', 'unsubscribe', at],
  ]);
  const group = JSON.stringify([
    { email: 'ann@acme.test', group_id: 1, group_name: 'Weekly', created_at: 1443651141 },
  ]);
  assert.deepEqual((await read(group)).entries, [['left out', 'not_all_mail']]);
  assert.deepEqual((await read(group, 'unsubscribe')).entries, [
    ['ann@acme.test', 'unsubscribe', at],
  ]);
});

test("Mailgun's bounces, unsubscribes and complaints, with times in the format of mail", async () => {
  const time = 'Tue, 07 Jan 2025 19:25:45 UTC';
  const at = '2025-01-07T19:25:45.000Z';
  const pageOf = (items: object[]) => JSON.stringify({ items, paging: { next: 'https://x.test' } });
  const bounces = pageOf([
    { address: 'ann@acme.test', code: '550', error: 'No such mailbox', created_at: time },
    {
      address: 'ben@acme.test',
      code: '550',
      error: '',
      created_at: 'Mon, 01 Jan 0001 00:00:00 UTC',
    },
    {
      address: 'cara@acme.test',
      code: 554,
      error: '5.7.1 Message rejected as spam',
      created_at: time,
    },
  ]);
  assert.deepEqual(await read(bounces), {
    format: 'mailgun',
    entries: [
      ['ann@acme.test', 'hard_bounce', at],
      ['ben@acme.test', 'hard_bounce', null],
      ['left out', 'not_permanent'],
    ],
  });
  const tags = ['*', 'news'].map((tag) => ({
    address: 'ann@acme.test',
    tags: [tag],
    created_at: time,
  }));
  const unsubscribed = ['ann@acme.test', 'unsubscribe', at];
  assert.deepEqual((await read(pageOf(tags))).entries, [
    unsubscribed,
    ['left out', 'not_all_mail'],
  ]);
  assert.deepEqual((await read(pageOf(tags), 'unsubscribe')).entries, [unsubscribed, unsubscribed]);
  const csv = `address,tags,created_at\nann@acme.test,*,"${time}"\n`;
  assert.deepEqual((await read(csv)).entries, [unsubscribed]);

  const complaints = `address,created_at\nann@acme.test,"${time}"\n`;
  for (const file of [complaints, pageOf([{ address: 'ann@acme.test', created_at: time }])]) {
    assert.ok((await refusal(file)) instanceof ReasonNeeded);
    assert.deepEqual((await read(file, 'complaint')).entries, [['ann@acme.test', 'complaint', at]]);
  }
});

test("Amazon SES's list, from its API and in the form of its imports", async () => {
  const page = {
    SuppressedDestinationSummaries: [
      {
        EmailAddress: 'ann@acme.test',
        Reason: 'BOUNCE',
        LastUpdateTime: '2020-04-10T21:03:05+00:00',
      },
      { EmailAddress: 'ben@acme.test', Reason: 'COMPLAINT', LastUpdateTime: 1586552585.077 },
    ],
    NextToken: 'abc',
  };
  assert.deepEqual(await read(JSON.stringify(page)), {
    format: 'amazon_ses',
    entries: [
      ['ann@acme.test', 'hard_bounce', '2020-04-10T21:03:05.000Z'],
      ['ben@acme.test', 'complaint', '2020-04-10T21:03:05.077Z'],
    ],
  });
  const expected = {
    format: 'amazon_ses',
    entries: [
      ['ann@acme.test', 'hard_bounce', null],
      ['ben@acme.test', 'complaint', null],
    ],
  };
  const rows = 'ann@acme.test,BOUNCE\nben@acme.test,COMPLAINT\n';
  assert.deepEqual(await read(rows), expected);
  assert.deepEqual(await read(`emailAddress,reason\n${rows}`), expected);
  const lines = ['ann BOUNCE', 'ben COMPLAINT'].map((line) => {
    const [name, reason] = line.split(' ');
    return JSON.stringify({ emailAddress: `${name}@acme.test`, reason });
  });
  assert.deepEqual(await read(lines.join('\n')), expected);
});

test('our own list, also as JSON and with a reason for rows that have none', async () => {
  const list = {
    object: 'list',
    data: [
      {
        address: 'ann@acme.test',
        reason: 'complaint',
        created_at: '2026-11-21T08:30:00.000Z',
        expires_at: null,
      },
    ],
  };
  assert.deepEqual(await read(JSON.stringify(list)), {
    format: 'letterhaus',
    entries: [['ann@acme.test', 'complaint', '2026-11-21T08:30:00.000Z']],
  });
  assert.deepEqual((await read('["ann@acme.test"]')).entries, [['ann@acme.test', 'manual', null]]);
  const csv = 'E-Mail,Reason\nann@acme.test,\nben@acme.test,manual\n';
  assert.deepEqual(await read(csv, 'unsubscribe'), {
    format: 'letterhaus',
    entries: [
      ['ann@acme.test', 'unsubscribe', null],
      ['ben@acme.test', 'manual', null],
    ],
  });
});

test('a file of an unknown list is refused with the names of the known lists', async () => {
  const files = [
    'Name;Birthday\nAnn;1990-01-01\n',
    '{"Message":"Unauthorized"}',
    '[1]',
    '[{"id":1}]',
    'hello',
  ];
  for (const file of files) {
    assert.match((await refusal(file)).message, /Resend, Postmark, SendGrid, Mailgun, Amazon SES$/);
  }
});

test('a file that is not text in UTF-8 is refused', async () => {
  const utf16 = Buffer.from('\ufeffaddress\nann@acme.test\n', 'utf16le');
  assert.match((await refusal(utf16)).message, /UTF-16/);
  assert.match((await refusal(utf16.subarray(2))).message, /NUL/);
  assert.match((await refusal('address\nann\0@acme.test\n')).message, /NUL/);
  assert.match((await refusal(Buffer.from([0x50, 0x4b, 3, 4, 20]))).message, /unpack/);
  const marked = await read('\ufeff["ann@acme.test"]');
  assert.equal(marked.entries.length, 1);
  const latin = await read(Buffer.from('address\nj\xfcrgen@acme.test\n', 'latin1'));
  assert.deepEqual(latin.entries, [['problem', 'The address is not in UTF-8']]);
});
