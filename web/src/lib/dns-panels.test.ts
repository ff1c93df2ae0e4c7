/** Shows the values that a member types into the panel of a DNS provider. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fieldsFor, nameInZone, zonesOf } from './dns-panels.ts';

const MX = { type: 'MX', name: 'send.acme.com', value: 'mail.acme.com', priority: 10 };

test('a panel with a field for the priority gets the host alone', () => {
  const fields = { name: 'send', value: 'mail.acme.com', priority: 10 };
  assert.deepEqual(fieldsFor('cloudflare', 'acme.com', MX), fields);
  assert.deepEqual(fieldsFor('ovh', 'acme.com', MX), { ...fields, value: 'mail.acme.com.' });
});

test('a panel like a zone file gets priority and host in one field', () => {
  const fields = { name: 'send', value: '10 mail.acme.com.', priority: null };
  assert.deepEqual(fieldsFor('hetzner', 'acme.com', MX), fields);
  assert.equal(fieldsFor('route53', 'acme.com', MX).value, '10 mail.acme.com');
});

test('a long key is split into quoted strings where the panel does not do so', () => {
  const key = {
    type: 'TXT',
    name: 's1._domainkey.acme.com',
    value: `v=DKIM1; p=${'A'.repeat(300)}`,
  };
  assert.equal(fieldsFor('godaddy', 'acme.com', key).value, key.value);
  const { value } = fieldsFor('route53', 'acme.com', key);
  assert.match(value, /^"v=DKIM1; p=A+" "A+"$/);
  assert.ok(value.split('" "').every((piece) => piece.length <= 256));
});

test('names are those below the zone', () => {
  assert.equal(nameInZone('send.mail.acme.com', 'acme.com'), 'send.mail');
  assert.equal(nameInZone('acme.com', 'acme.com'), '@');
  assert.equal(nameInZone('send.other.com', 'acme.com'), 'send.other.com');
});

test('the registered domain is the most likely zone', () => {
  assert.deepEqual(zonesOf('acme.com'), ['acme.com']);
  assert.deepEqual(zonesOf('mail.acme.com'), ['acme.com', 'mail.acme.com']);
  assert.deepEqual(zonesOf('mail.acme.co.uk'), ['acme.co.uk', 'mail.acme.co.uk']);
});
