import { test } from 'node:test';
import assert from 'node:assert/strict';
import { clientOf, sharedAddresses } from './client-address.ts';

test('an IPv4 address is one client, however it is written', () => {
  assert.equal(clientOf('192.0.2.7'), '192.0.2.7');
  assert.equal(clientOf('::ffff:192.0.2.7'), '192.0.2.7');
});

test('an IPv6 /64 is one client, however it is written', () => {
  const same = ['2001:db8:0:1::1', '2001:DB8::1:0:0:0:2', '2001:0db8:0000:0001:9:8:7:6'];
  for (const address of same) assert.equal(clientOf(address), '2001:db8:0:1::/64', address);
  assert.equal(clientOf('::1'), '0:0:0:0::/64');
  assert.equal(clientOf('fe80::1%eth0'), 'fe80:0:0:0::/64');
  assert.equal(clientOf('64:ff9b::192.0.2.7'), '64:ff9b:0:0::/64');
  assert.notEqual(clientOf('2001:db8:0:2::1'), clientOf('2001:db8:0:1::1'));
});

test('what is no address is cut, not trusted', () => {
  assert.equal(clientOf('unknown'), 'unknown');
  assert.equal(clientOf('x'.repeat(5_000)).length, 64);
});

test('this machine and named networks stand for many clients, all others for one', () => {
  const isShared = sharedAddresses(['10.0.0.0/8', '192.0.2.7', '2001:db8::/32']);
  for (const address of [
    '127.0.0.1',
    '127.9.9.9',
    '::1',
    '::ffff:127.0.0.1',
    '10.1.2.3',
    '::ffff:10.1.2.3',
    '192.0.2.7',
    '2001:db8:1::5',
  ]) {
    assert.equal(isShared(address), true, address);
  }
  for (const address of ['192.0.2.8', '::2', '2001:db9::1', 'fe80::1%eth0', 'nonsense', '']) {
    assert.equal(isShared(address), false, address);
  }
});
