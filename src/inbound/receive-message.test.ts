/** Shows which messages are stored when a client has used up its limit for mail that changes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { statusReport } from '../../test/support/reports.ts';
import type { StoredStatus } from '../core/statuses.ts';
import { parseMailbox } from '../mail/address.ts';
import type { InboundItem, ReportStore } from './report-store.ts';
import type { InboundMessageStore } from './inbound-message-store.ts';
import { newId } from '../database/ids.ts';
import { createReceive } from './receive-message.ts';

/** Receives one message while the limit for unmatched mail is used up. */
async function receive(status: StoredStatus, content: string): Promise<string> {
  const stored: InboundItem[] = [];
  const receiveNow = createReceive({
    book: {
      db: { query: () => assert.fail('no recipient is looked up') },
      secrets: () => [Buffer.alloc(32)],
    },
    store: {
      add: async (item) => {
        stored.push(item);
        return { kind: 'stored', change: null };
      },
    } as ReportStore,
    unmatched: {
      add: () => assert.fail('no unmatched mail is stored'),
    } as unknown as InboundMessageStore,
    rate: { tryCount: () => false },
    refusal: () => null,
    world: { newId, now: Date.now },
    db: {
      query: () => assert.fail('no report about DMARC is stored'),
      transaction: () => assert.fail('nobody unsubscribes'),
    },
    onWebhooksQueued: () => {},
    onMailboxFull: () => {},
  });
  const from = parseMailbox('hello@acme.test')!;
  const email = {
    id: newId(),
    from,
    to: [],
    subject: '',
    tags: [],
    metadata: {},
    messageId: '<1@a>',
  };
  const received = await receiveNow({
    content: Buffer.from(content),
    sizeBytes: content.length,
    remoteAddress: '192.0.2.1',
    client: '192.0.2.1',
    sender: '',
    recipients: [
      {
        address: 'b-x@send.acme.test',
        addressee: {
          kind: 'recipient',
          recipient: {
            projectId: newId(),
            environment: 'live',
            position: 0,
            address: parseMailbox('jo@receiver.test')!.address,
            status,
            email,
            isTooOld: false,
          },
        },
      },
    ],
  });
  assert.equal(stored.length, received === 'stored' ? 1 : 0);
  return received;
}

test('beyond the limit for unmatched mail only reports that can change something are stored', async () => {
  const bounce = statusReport({ recipient: 'jo@receiver.test' });
  const confirmation = statusReport({ action: 'delivered', status: '2.0.0' });
  assert.equal(await receive('delivered', bounce), 'stored');
  assert.equal(await receive('sent', bounce), 'stored');
  assert.equal(await receive('sent', confirmation), 'stored');
  // The delivery may have ended by now. The store checks it.
  assert.equal(await receive('queued', bounce), 'stored');
  for (const status of ['bounced', 'complained', 'failed', 'suppressed', 'canceled'] as const) {
    assert.equal(await receive(status, bounce), 'too_many', status);
  }
  assert.equal(await receive('delivered', confirmation), 'too_many');
});
