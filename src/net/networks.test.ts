/** Networks in CIDR notation: their form, and which addresses they contain. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { isInNetworks, parseNetwork } from './networks.ts';

test('a network has one form, however it is written', () => {
  for (const [text, form] of [
    ['10.1.2.3/8', '10.0.0.0/8'],
    ['192.0.2.7', '192.0.2.7'],
    ['192.0.2.7/32', '192.0.2.7'],
    [' 0.0.0.0/0 ', '0.0.0.0/0'],
    ['2001:DB8:0:0::1/32', '2001:db8::/32'],
    ['2001:db8::0001', '2001:db8::1'],
    ['2001:db8::1/128', '2001:db8::1'],
    ['::/0', '::/0'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
    ['64:ff9b::192.0.2.33/96', '64:ff9b::/96'],
  ] as const) {
    assert.equal(parseNetwork(text), form, text);
  }
});

test('a text that is no network is refused', () => {
  for (const text of [
    '',
    'acme.com',
    '10.0.0.0/33',
    '10.0.0.0/',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0/8',
    '010.0.0.1',
    '2001:db8::/129',
    'fe80::1%eth0',
    '[::1]',
    '10.0.0.0/1e1',
  ]) {
    assert.equal(parseNetwork(text), null, text);
  }
});

test('an address is in a network regardless of the form in which the socket reports it', () => {
  const networks = ['10.0.0.0/8', '192.0.2.7', '2001:db8::/32'];
  for (const address of ['10.255.0.1', '::ffff:10.0.0.1', '192.0.2.7', '2001:DB8:ffff::1']) {
    assert.equal(isInNetworks(networks, address), true, address);
  }
  for (const address of ['11.0.0.1', '192.0.2.8', '::ffff:192.0.2.8', '2001:db9::1', '', 'x']) {
    assert.equal(isInNetworks(networks, address), false, address);
  }
});

test('a network contains each address that it was made of, and its form is stable', () => {
  const cases = fc.oneof(
    fc.tuple(fc.ipV4(), fc.integer({ min: 0, max: 32 })),
    fc.tuple(fc.ipV6(), fc.integer({ min: 0, max: 128 })),
  );
  fc.assert(
    fc.property(cases, ([address, bits]) => {
      const network = parseNetwork(`${address}/${bits}`);
      assert.ok(network !== null);
      assert.equal(parseNetwork(network), network);
      assert.equal(isInNetworks([network], parseNetwork(address)!), true);
    }),
  );
});
