/** Examples of events have the fields that the API documents. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { domain } from '../domains/routes.ts';
import { reason, smtp } from '../emails/schemas.ts';
import { SAMPLE_TYPES, sampleData } from './sample-events.ts';

const AT = '2026-11-21T08:30:00.123Z';
const OF_EMAIL = ['email_id', 'from', 'to', 'subject', 'tags', 'metadata', 'message_id', 'status'];

test('an example has the documented fields of its type', () => {
  for (const type of SAMPLE_TYPES) {
    const data = sampleData(type, AT) as Record<string, unknown>;
    if (type.startsWith('suppression.')) {
      assert.equal(data['created_at'], AT);
      continue;
    }
    if (type.startsWith('domain.')) {
      domain.parse(data);
      continue;
    }
    for (const field of OF_EMAIL) assert.ok(field in data, `${type} has ${field}`);
    if ('reason' in data) reason.parse(data['reason']);
    if ('smtp' in data) smtp.parse(data['smtp']);
  }
});

test('an example of a bounce has its recipient, reason and reply', () => {
  const data = sampleData('email.bounced', AT) as Record<string, unknown>;
  assert.deepEqual([data['recipient'], data['status']], ['jo@example.com', 'bounced']);
  assert.ok('reason' in data && 'smtp' in data);
});
