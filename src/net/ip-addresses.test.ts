/** Shows which addresses may be connected to, by range, and which addresses count as one client. */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { test } from 'node:test';
import {
  clientOf,
  networkOf,
  createAddressGuard,
  isLoopback,
  isPublicAddress,
  sharedAddresses,
} from './ip-addresses.ts';

/** First and last address of each refused range. The next test has the neighbours, which are public. */
const REFUSED: readonly [string, string[]][] = [
  ['this network', ['0.0.0.0', '0.255.255.255']],
  ['private 10/8', ['10.0.0.0', '10.255.255.255']],
  ['carrier-grade NAT', ['100.64.0.0', '100.127.255.255']],
  ['loopback', ['127.0.0.0', '127.0.0.1', '127.255.255.255']],
  ['the metadata service of Azure', ['168.63.129.16']],
  ['link-local and the metadata service', ['169.254.0.0', '169.254.169.254', '169.254.255.255']],
  ['private 172.16/12', ['172.16.0.0', '172.31.255.255']],
  ['protocol assignments', ['192.0.0.0', '192.0.0.255']],
  ['documentation 1', ['192.0.2.0', '192.0.2.255']],
  ['6to4 relay', ['192.88.99.0', '192.88.99.255']],
  ['private 192.168/16', ['192.168.0.0', '192.168.255.255']],
  ['benchmarking', ['198.18.0.0', '198.19.255.255']],
  ['documentation 2', ['198.51.100.0', '198.51.100.255']],
  ['documentation 3', ['203.0.113.0', '203.0.113.255']],
  ['multicast', ['224.0.0.0', '239.255.255.255']],
  ['reserved and broadcast', ['240.0.0.0', '255.255.255.255']],
  ['unspecified and loopback IPv6', ['::', '::1', '0:0:0:0:0:0:0:1']],
  ['IPv4-compatible', ['::7f00:1', '::127.0.0.1', '::8.8.8.8']],
  ['IPv4-mapped', ['::ffff:127.0.0.1', '::ffff:7f00:1', '::FFFF:10.0.0.1', '::ffff:8.8.8.8']],
  ['NAT64', ['64:ff9b::7f00:1', '64:ff9b::127.0.0.1', '64:ff9b:1::1', '64:ff9b:1:ffff::']],
  ['discard-only', ['100::', '100::ffff:ffff:ffff:ffff']],
  ['Teredo', ['2001::', '2001:0:ffff:ffff::1']],
  ['IETF protocol assignments', ['2001:2::1', '2001:10::1', '2001:20::1', '2001:1ff:ffff::1']],
  ['documentation IPv6', ['2001:db8::', '2001:db8:ffff::1', '3fff::', '3fff:fff:ffff::1']],
  ['6to4', ['2002::', '2002:7f00:1::1', '2002:ffff::1']],
  ['segment routing', ['5f00::', '5f00:ffff::1']],
  ['unique local', ['fc00::', 'fd12:3456::1', 'fdff:ffff::1']],
  ['link-local IPv6', ['fe80::', 'fe80::1', 'febf:ffff::1', 'fe80::1%eth0']],
  ['site-local', ['fec0::', 'feff:ffff::1']],
  ['multicast IPv6', ['ff00::', 'ff02::1', 'ffff:ffff::1']],
  ['outside of global unicast', ['1::1', '1fff:ffff::1', '4000::1', '8000::1', 'e000::1']],
  [
    'not addresses',
    ['', 'localhost', '127.1', '2130706433', '0x7f000001', '0177.0.0.1', '1.1.1.1 '],
  ],
];

const PUBLIC = [
  '1.0.0.0',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.0',
  '168.63.129.15',
  '168.63.129.17',
  '169.253.255.255',
  '169.255.0.0',
  '172.15.255.255',
  '172.32.0.0',
  '191.255.255.255',
  '192.0.1.0',
  '192.0.3.0',
  '192.88.98.255',
  '192.88.100.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '198.51.99.255',
  '198.51.101.0',
  '203.0.112.255',
  '203.0.114.0',
  '223.255.255.255',
  '2000::',
  '2001:200::',
  '2001:db7:ffff::1',
  '2001:db9::',
  '2001:4860:4860::8888',
  '2003::1',
  '2606:4700:4700::1111',
  '2A00:1450:4001:80E::200E',
  '3ffe:ffff::1',
  '3fff:1000::1',
];

for (const [name, addresses] of REFUSED) {
  test(`no connection is made to ${name}`, () => {
    const guard = createAddressGuard({ allowPrivate: false });
    for (const address of addresses) {
      assert.equal(isPublicAddress(address), false, address);
      assert.ok(guard.refusalReason(address), address);
    }
  });
}

test('the addresses next to the refused ranges are public', () => {
  const guard = createAddressGuard({ allowPrivate: false });
  for (const address of PUBLIC) {
    assert.equal(isPublicAddress(address), true, address);
    assert.equal(guard.refusalReason(address), null, address);
  }
});

test('no private IPv4 address passes in any IPv6 form', () => {
  const privateIpv4 = fc.constantFrom('127.0.0.1', '10.1.2.3', '192.168.0.1', '169.254.169.254');
  const hex = (ip: string) => {
    const [a = 0, b = 0, c = 0, d = 0] = ip.split('.').map(Number);
    return `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  };
  const forms = fc.constantFrom(
    (ip: string) => `::ffff:${ip}`,
    (ip: string) => `::ffff:${hex(ip)}`,
    (ip: string) => `0:0:0:0:0:ffff:${hex(ip)}`,
    (ip: string) => `::${hex(ip)}`,
    (ip: string) => `64:ff9b::${hex(ip)}`,
    (ip: string) => `2002:${hex(ip)}::1`,
  );
  fc.assert(fc.property(privateIpv4, forms, (ip, form) => !isPublicAddress(form(ip))));
});

test('the reason names the address and its kind', () => {
  const guard = createAddressGuard({ allowPrivate: false });
  assert.equal(guard.refusalReason('169.254.169.254'), '169.254.169.254 is a link-local address');
  assert.equal(guard.refusalReason('2001:0:1::1'), '2001:0:1::1 is a Teredo address');
  assert.equal(guard.refusalReason('mx.acme.test'), '"mx.acme.test" is not an IP address');
});

test("the machine's own public addresses are refused, in any spelling", () => {
  const guard = createAddressGuard({
    allowPrivate: false,
    ownAddresses: ['127.0.0.1', '8.8.4.4', '2606:4700:0:0::1', 'fe80::1%eth0'],
  });
  assert.equal(guard.refusalReason('8.8.4.4'), '8.8.4.4 is an address of this machine');
  assert.equal(guard.refusalReason('2606:4700::1'), '2606:4700::1 is an address of this machine');
  assert.equal(guard.refusalReason('8.8.8.8'), null);
});

test('private networks can be allowed for development', () => {
  const guard = createAddressGuard({ allowPrivate: true, ownAddresses: ['127.0.0.1'] });
  assert.equal(guard.refusalReason('127.0.0.1'), null);
  assert.equal(guard.refusalReason('10.0.0.1'), null);
  assert.ok(guard.refusalReason('localhost'));
});

test('an IPv4 address is one client in every notation', () => {
  assert.equal(clientOf('192.0.2.7'), '192.0.2.7');
  assert.equal(clientOf('::ffff:192.0.2.7'), '192.0.2.7');
});

test('an IPv6 /64 is one client in every notation', () => {
  const same = ['2001:db8:0:1::1', '2001:DB8::1:0:0:0:2', '2001:0db8:0000:0001:9:8:7:6'];
  for (const address of same) assert.equal(clientOf(address), '2001:db8:0:1::/64', address);
  assert.equal(clientOf('::1'), '0:0:0:0::/64');
  assert.equal(clientOf('fe80::1%eth0'), 'fe80:0:0:0::/64');
  assert.equal(clientOf('64:ff9b::192.0.2.7'), '64:ff9b:0:0::/64');
  assert.notEqual(clientOf('2001:db8:0:2::1'), clientOf('2001:db8:0:1::1'));
});

test('an invalid address is shortened and not trusted', () => {
  assert.equal(clientOf('unknown'), 'unknown');
  assert.equal(clientOf('x'.repeat(5_000)).length, 64);
});

test('an address of loopback or a trusted network stands for many clients, any other for one', () => {
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

test('only addresses of loopback lead to this machine', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) {
    assert.equal(isLoopback(address), true, address);
  }
  for (const address of [
    '10.0.0.1',
    '0.0.0.0',
    '::',
    '::2',
    '127.0.0.1.example.com',
    'localhost',
  ]) {
    assert.equal(isLoopback(address), false, address);
  }
});

test('the network of an address is its /24, or its /48 of IPv6', () => {
  const cases = [
    ['203.0.113.77', '203.0.113.0'],
    ['::ffff:203.0.113.77', '203.0.113.0'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::'],
    ['2001:db8::7', '2001:db8:0::'],
    ['::1', '0:0:0::'],
  ] as const;
  for (const [address, network] of cases) assert.equal(networkOf(address), network);
});
