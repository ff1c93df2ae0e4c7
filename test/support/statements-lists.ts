/** Statements of lists and searches of emails, for statements.ts. */
import { type EmailFilter, listEmails, NO_FILTER } from '../../src/emails/list/email-list-store.ts';
import { countEmails } from '../../src/emails/list/email-counts-store.ts';
import { listRecipients } from '../../src/emails/recipient/recipient-list-store.ts';
import { findLastReply } from '../../src/emails/recipient/recipient-store.ts';
import { findRefusedRequests } from '../../src/requests/request-store.ts';
import { findChanges } from '../../src/accounts/audit/audit-store.ts';
import * as searchBlocks from '../../src/emails/list/search-blocks-store.ts';
import { newId } from '../../src/database/ids.ts';
import type { Page } from '../../src/database/page.ts';
import { BUSY_ADDRESS } from './fill.ts';
import type { Exercise, Stage } from './statements.ts';

const PAGE: Page = { limit: 20, after: null, before: null };

/** Limit on scanned emails for searches without an index; the response says when it is reached. */
const SCANNED = 50_000;

const list = (what: string, asks: number, filter: Partial<EmailFilter>, page = {}): Exercise => ({
  what: `list emails ${what}`,
  asks,
  run: ({ db, sender, someEmailId }) => {
    const at = Object.fromEntries(Object.keys(page).map((cursor) => [cursor, someEmailId]));
    const where = { ...NO_FILTER, ...filter };
    return listEmails(db, sender, { page: { ...PAGE, ...at }, filter: where });
  },
});

/** Makes one batch of blocks for searches. */
async function makeBlocks({ db }: Stage): Promise<void> {
  let batches = 0;
  const isStopping = () => (batches += 1) > 1;
  await searchBlocks.makeSearchBlocks(db, { nowMs: Date.now(), isStopping });
  await searchBlocks.removeOldBlocks(db, 100);
}

/** Reads what the page of a recipient shows. */
async function readRecipient({ db, sender }: Stage): Promise<void> {
  await findLastReply(db, sender, BUSY_ADDRESS);
  await findLastReply(db, sender, 'jö@customers1.test');
  await findRefusedRequests(db, sender, BUSY_ADDRESS);
  await findRefusedRequests(db, sender, null);
  await findChanges(db, sender.projectId, { ...sender, actions: ['deleteSuppression'] });
}

export const LIST_EXERCISES: readonly Exercise[] = [
  list('newest first', 20, {}),
  list('older ones', 20, {}, { after: true }),
  list('newer ones', 20, {}, { before: true }),
  list('of a recipient', 20, { to: 'jo77@customers1.test' }),
  list('of a recipient outside of ASCII', 20, { to: 'jö@customers1.test' }),
  list('of a recipient who gets many', 20, { to: BUSY_ADDRESS }),
  list('of a recipient who gets many, older', 20, { to: BUSY_ADDRESS }, { after: true }),
  list('of a recipient who gets many, newer', 20, { to: BUSY_ADDRESS }, { before: true }),
  list('between two times', 20, { createdBefore: new Date(Date.now() - 7 * 86_400_000) }),
  list('by status', SCANNED, { status: 'bounced' }),
  list('by status, open', 300, { status: 'queued' }),
  list('by status, none', SCANNED, { status: 'complained' }),
  list('by tag', 200, { tag: { name: 'kind', value: 'order3' } }),
  list('by sender', 200, { from: 'orders@acme.com' }),
  list('by domain', 20, { domain: 'acme.com' }),
  list('by template, none', SCANNED, { template: 'Order receipt' }),
  list('by key, none', SCANNED, { key: 'Production' }),
  list('by provider, none', SCANNED, { provider: 'nowhere' }),
  list('by reason, none', SCANNED, { reason: 'tls' }),
  list('by subject, none', SCANNED, { subject: ['nothing like it'] }),
  list('by a rare word', SCANNED, { words: ['jo1234@customers2'] }),
  list('by a word', SCANNED, { words: ['customers7'] }),
  list('by a word, older', SCANNED, { words: ['customers7'] }, { after: true }),
  list('by a word, newer', SCANNED, { words: ['customers7'] }, { before: true }),
  list('by a reply, none', SCANNED, { reply: 'nothing like it' }),
  list('by an id', 1, { id: newId() }),
  {
    what: 'count emails by a word',
    asks: SCANNED,
    run: ({ db, sender }) => countEmails(db, sender, { ...NO_FILTER, words: ['customers7'] }),
  },
  // The newest hundred emails to the address, which gets many.
  { what: 'a recipient', asks: 200, run: readRecipient },
  {
    what: 'recipients by their newest email',
    asks: 200,
    run: ({ db, sender }) => listRecipients(db, sender, { part: null, after: null, limit: 20 }),
  },
  {
    what: 'recipients by a part of an address, older',
    asks: SCANNED,
    run: ({ db, sender, someEmailId }) =>
      listRecipients(db, sender, { part: 'customers7', after: someEmailId, limit: 20 }),
  },
  { what: 'make blocks for searches', asks: 1_000, run: makeBlocks },
  list('by a rare word, in blocks', SCANNED, { words: ['jo1234@customers2'] }, { after: true }),
];
