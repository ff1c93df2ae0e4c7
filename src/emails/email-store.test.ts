/** Shows how emails are read, listed and filtered in a real database, with outcomes that the settle store wrote. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  SETTLING,
  newEmail,
  newSender,
  type Sender,
  settlement,
} from '../../test/support/mail-store.ts';
import { address } from '../../test/support/deliveries.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { countEmails } from './list/email-counts-store.ts';
import { type EmailFilter, listEmails, NO_FILTER } from './list/email-list-store.ts';
import { emailExists, findEmail, listTimeline } from './email-store.ts';
import { newId } from '../database/ids.ts';
import { SettleStore } from '../settle/settle-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const leaseId = newId();
const accepting = new AcceptStore(db.accepting, {
  limit: { max: 1_000_000, windowS: 60 },
  leaseId: () => leaseId,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});
const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });

async function accepted(sender: Sender, changes: Parameters<typeof newEmail>[1] = {}) {
  const email = newEmail(sender, changes);
  assert.equal((await accepting.accept(email)).outcome, 'accepted');
  return email;
}

const BOUNCED = { status: 'bounced', eventType: 'email.bounced' } as const;
const DEFERRED = {
  status: 'deferred',
  eventType: 'email.delivery_delayed',
  retryMs: 60_000,
} as const;

function refOf(email: NewEmail, keyId: string | null = null) {
  const { projectId, environment, id } = email;
  return { projectId, environment, id, keyId, domain: null };
}

/** Numbers ids in the order of creation, from 1, so that expectations are readable. */
async function listed(
  sender: Sender,
  made: readonly NewEmail[],
  { limit = 20, ...query }: Query = {},
): Promise<number[]> {
  const page = { limit, after: null, before: null, ...query };
  const { rows } = await listEmails(db, sender, { page, filter: { ...NO_FILTER, ...query } });
  return rows.map((row) => made.findIndex((email) => email.id === row.id) + 1);
}

type Query = Partial<EmailFilter> & {
  limit?: number;
  after?: string | null;
  before?: string | null;
};

test('an email is read as it was sent, with the outcome of each recipient', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender, {
    to: ['jo@example.net', 'flo@example.net'],
    tags: [{ name: 'kind', value: 'receipt' }],
    metadata: { order: '4711' },
  });
  await settling.settle(
    settlement(email, {
      ...BOUNCED,
      reason: { category: 'mailbox', blame: 'recipient', advice: 'Ask for another address.' },
      smtp: { code: 550, enhanced_code: '5.1.1', message: 'No such user' },
    }),
  );
  const found = await findEmail(db, refOf(email));
  assert.ok(found);
  assert.equal(found.subject, 'Hello');
  assert.deepEqual(found.to, ['jo@example.net', 'flo@example.net']);
  assert.deepEqual(found.tags, [{ name: 'kind', value: 'receipt' }]);
  assert.deepEqual(found.metadata, { order: '4711' });
  assert.equal(found.html, '<p>Hello</p>');
  assert.equal(found.lastEvent, 'email.bounced');
  const [jo, flo] = found.recipients;
  assert.equal(jo?.status, 'bounced');
  assert.equal(jo.attempts, 1);
  assert.equal(jo.reason?.category, 'mailbox');
  assert.equal(jo.smtp?.code, 550);
  assert.match(jo.completed_at ?? '', /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.equal(flo?.completed_at, null);
});

test('an email has the status of its most active open recipient, else of its worst outcome', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender, { to: ['a@example.net', 'b@example.net', 'c@example.net'] });
  const statusNow = async () => (await findEmail(db, refOf(email)))?.status;
  assert.equal(await statusNow(), 'sending');
  await settling.settle(settlement(email, BOUNCED));
  assert.equal(await statusNow(), 'sending');
  await settling.settle(settlement(email, { ...DEFERRED, position: 1 }));
  await db.query('update queue set holder = null where email_id = $1', [email.id]);
  assert.equal(await statusNow(), 'queued');
  await db.query('update queue set holder = $2 where email_id = $1', [email.id, leaseId]);
  await settling.settle(settlement(email, { position: 2 }));
  await db.query('update queue set holder = null where email_id = $1', [email.id]);
  assert.equal(await statusNow(), 'deferred');
  await db.query('update queue set holder = $2 where email_id = $1', [email.id, leaseId]);
  await settling.settle(settlement(email, { position: 1 }));
  assert.equal(await statusNow(), 'bounced');
});

test('the timeline is numbered, oldest first, and can be read from any number', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender);
  await settling.settle(settlement(email, { attempt: { number: 1, transcript: ['S: 250 ok'] } }));
  const events = await listTimeline(db, refOf(email), { after: 0, limit: 10 });
  assert.deepEqual(
    events.map((event) => [event.number, event.type, event.recipient]),
    [
      [1, 'email.queued', null],
      [2, 'email.delivered', 'jo@example.net'],
    ],
  );
  assert.deepEqual(events[1]?.attempt, { number: 1, transcript: ['S: 250 ok'] });
  const later = await listTimeline(db, refOf(email), { after: 1, limit: 10 });
  assert.deepEqual(
    later.map((event) => event.number),
    [2],
  );
});

test('emails of another project or environment are not found', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender);
  const stranger = await newSender(db);
  const foreign = [{ ...refOf(email), projectId: stranger.projectId }];
  const other = [{ ...refOf(email), environment: 'test' as const }];
  for (const ref of [...foreign, ...other]) {
    assert.equal(await findEmail(db, ref), null);
    assert.equal(await emailExists(db, ref), false);
    assert.deepEqual(await listTimeline(db, ref, { after: 0, limit: 10 }), []);
    assert.deepEqual(await listed({ ...sender, ...ref } as Sender, [email]), []);
  }
});

test('a sending key sees only emails that it sent', async () => {
  const sender = await newSender(db);
  const own = await accepted(sender);
  const made = [own, await accepted(sender)];
  await db.query('update emails set key_id = $2 where id = $1', [made[1]?.id, newId()]);
  assert.deepEqual(await listed(sender, made, { keyId: sender.keyId }), [1]);
  assert.equal(await emailExists(db, refOf(own, sender.keyId)), true);
  assert.equal(await emailExists(db, refOf(own, newId())), false);
  assert.equal(await findEmail(db, refOf(own, newId())), null);
});

test('lists are paged in both directions, newest first', async () => {
  const sender = await newSender(db);
  const made: NewEmail[] = [];
  for (let count = 0; count < 5; count += 1) made.push(await accepted(sender));
  const id = (number: number) => made[number - 1]?.id ?? null;
  assert.deepEqual(await listed(sender, made, { limit: 2 }), [5, 4]);
  assert.deepEqual(await listed(sender, made, { limit: 2, after: id(4) }), [3, 2]);
  assert.deepEqual(await listed(sender, made, { limit: 2, after: id(2) }), [1]);
  assert.deepEqual(await listed(sender, made, { limit: 2, before: id(2) }), [4, 3]);
  assert.deepEqual(await listed(sender, made, { limit: 2, before: id(4) }), [5]);
});

test('every filter finds exactly the matching emails', async () => {
  const sender = await newSender(db);
  const from = { name: 'Acme', address: address('Billing@acme.com') };
  const made = [
    await accepted(sender, { to: ['jo@example.net'], subject: 'Invoice 100%' }),
    await accepted(sender, { to: ['Flo@example.net'], from }),
    await accepted(sender, { tags: [{ name: 'kind', value: 'receipt' }], to: ['x@example.net'] }),
    await accepted(sender, { tags: [{ name: 'kind', value: 'login' }], to: ['y@example.net'] }),
  ];
  const cases: [Query, number[]][] = [
    [{ to: 'jo@example.net' }, [1]],
    [{ to: 'flo@example.net' }, [2]],
    [{ to: 'nobody@example.net' }, []],
    [{ from: 'billing@acme.com' }, [2]],
    [{ subject: ['invoice 100%'] }, [1]],
    [{ subject: ['%'] }, [1]],
    [{ subject: ['_'] }, []],
    [{ tag: { name: 'kind' } }, [4, 3]],
    [{ tag: { name: 'kind', value: 'login' } }, [4]],
    [{ domain: 'acme.com' }, [4, 3, 2, 1]],
    [{ words: ['INVOICE', 'jo@ex'] }, [1]],
    [{ words: ['billing@'] }, [2]],
    [{ words: ['kind:rec'] }, [3]],
    [{ words: ['example.net', 'login'] }, [4]],
    [{ words: ['invoice', 'login'] }, []],
    [{ toPart: 'O@EXAMPLE' }, [2, 1]],
    [{ fromPart: 'billing' }, [2]],
    [{ id: made[2]!.id }, [3]],
    [{ id: made[2]!.id, words: ['login'] }, []],
    [{ id: newId() }, []],
    [{ domain: 'cme.com' }, []],
    [{ tag: { name: 'kind' }, to: 'x@example.net' }, [3]],
  ];
  for (const [query, expected] of cases) {
    assert.deepEqual(await listed(sender, made, query), expected, JSON.stringify(query));
  }
});

test('emails are found by the last reply of a mail server, and by the server', async () => {
  const sender = await newSender(db);
  const made = [await accepted(sender), await accepted(sender)];
  const smtp = { code: 550, enhanced_code: '5.1.1', message: 'No such user', mx: 'mx7.one.test' };
  await settling.settle(settlement(made[1]!, { ...BOUNCED, smtp }));
  const cases = { 'no SUCH': [2], '5.1.1': [2], mx7: [], full: [] } as const;
  for (const [reply, expected] of Object.entries(cases)) {
    assert.deepEqual(await listed(sender, made, { reply }), expected, reply);
  }
  const quoted = { ...smtp, message: String.raw`Größe "5 MB" \ zu groß` };
  await settling.settle(settlement(made[0]!, { ...BOUNCED, smtp: quoted }));
  for (const reply of ['"5 mb"', String.raw`\ zu`, 'größe']) {
    assert.deepEqual(await listed(sender, made, { reply }), [1], reply);
  }
  assert.deepEqual(await listed(sender, made, { reply: '"message"' }), []);
  assert.deepEqual(await listed(sender, made, { reply: 'message' }), []);
  assert.deepEqual(await listed(sender, made, { server: 'mx7.' }), [2, 1]);
  assert.deepEqual(await listed(sender, made, { server: 'no such' }), []);
});

test('emails of a list are counted by status', async () => {
  const sender = await newSender(db);
  const made = [await accepted(sender), await accepted(sender), await accepted(sender)];
  await settling.settle(settlement(made[0]!, BOUNCED));
  await settling.settle(settlement(made[1]!, DEFERRED));
  const countOf = async (filter: Partial<EmailFilter>) => {
    const { statuses, ...counts } = await countEmails(db, sender, { ...NO_FILTER, ...filter });
    return { ...counts, ...Object.fromEntries(statuses) };
  };
  const all = { total: 3, scannedUntil: null, bounced: 1, deferred: 1, sending: 1 };
  assert.deepEqual(await countOf({}), all);
  assert.deepEqual(await countOf({ words: ['hello'] }), all);
  assert.deepEqual(await countOf({ to: 'jo@example.net' }), all);
  assert.deepEqual(await countOf({ status: 'bounced' }), {
    total: 1,
    scannedUntil: null,
    bounced: 1,
  });
  assert.deepEqual(await countOf({ words: ['nothing'] }), { total: 0, scannedUntil: null });
});

test('emails are found by status, open or ended', async () => {
  const sender = await newSender(db);
  const made: NewEmail[] = [];
  for (let count = 0; count < 4; count += 1) made.push(await accepted(sender));
  const [leased, waiting, deferred, bounced] = made as [NewEmail, NewEmail, NewEmail, NewEmail];
  await settling.settle(settlement(bounced, BOUNCED));
  await settling.settle(settlement(deferred, DEFERRED));
  await db.query('update queue set holder = null where email_id = $1', [waiting.id]);
  const cases = { sending: [1], queued: [2], deferred: [3], bounced: [4], delivered: [] } as const;
  for (const [status, expected] of Object.entries(cases)) {
    const found = await listed(sender, made, { status: status as keyof typeof cases });
    assert.deepEqual(found, expected, status);
  }
  assert.equal((await findEmail(db, refOf(leased)))?.status, 'sending');
});

test('time filters include the start and exclude the end, even when a test moved the clock', async () => {
  const sender = await newSender(db);
  const made: NewEmail[] = [];
  const times: Date[] = [];
  for (let count = 0; count < 3; count += 1) {
    made.push(await accepted(sender));
    const found = await findEmail(db, refOf(made[count]!));
    times.push(found?.createdAt ?? new Date(0));
    await db.query(`update clock set skew = skew + interval '1 day'`);
  }
  const [first, second, third] = times as [Date, Date, Date];
  assert.deepEqual(await listed(sender, made, { createdAfter: second }), [3, 2]);
  assert.deepEqual(await listed(sender, made, { createdBefore: second }), [1]);
  assert.deepEqual(
    await listed(sender, made, { createdAfter: first, createdBefore: third }),
    [2, 1],
  );
  assert.deepEqual(await listed(sender, made, { createdAfter: new Date(8.64e15) }), []);
  assert.deepEqual(await listed(sender, made, { createdBefore: new Date(-1) }), []);
  await db.query(`update clock set skew = '0'`);
});

const COPY_OF_50_000 = `
  insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed,
                      from_address, to_list, cc_list, bcc_list, reply_to, subject, tags, metadata,
                      open_count, worst, event_count, last_event)
  select project_id, environment,
         (left(emails.id::text, 14) || '7fff-bfff-' || to_char(number, 'fm000000000000'))::uuid,
         created_at, expires_at, domain_id, dual_signed, from_address, to_list, cc_list, bcc_list,
         reply_to, 'hay', tags, metadata, 0, 1, event_count, last_event
    from emails, generate_series(1, 50000) number where emails.id = $1`;

test('a filter without an index reads 50,000 emails and returns where it stopped', async () => {
  const sender = await newSender(db);
  const oldest = await accepted(sender, { subject: 'needle' });
  await db.query(COPY_OF_50_000, [oldest.id]);
  const filter = { ...NO_FILTER, subject: ['needle'] };
  const page = { limit: 20, after: null, before: null };
  const look = await listEmails(db, sender, { page, filter });
  assert.deepEqual(look.rows, []);
  assert.equal(look.hasMore, true);
  assert.ok(look.scannedUntil && look.scannedUntil > oldest.id);
  const next = await listEmails(db, sender, {
    page: { ...page, after: look.scannedUntil },
    filter,
  });
  assert.deepEqual(
    next.rows.map((row) => row.id),
    [oldest.id],
  );
  assert.equal(next.scannedUntil, null);
  assert.equal(next.hasMore, false);
});
