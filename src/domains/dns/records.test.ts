/** The records that a domain must publish. Another implementation of SPF evaluates ours. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { spf } from 'mailauth/lib/spf/index.js';
import {
  requiredRecords,
  uncheckedRecords,
  type DomainSetup,
  type InstallationHosts,
} from './records.ts';

const HOST = 'mail.letterhaus.example';

function readInstallationHosts(sourceIps: string[]): InstallationHosts {
  return { returnPathHost: HOST, hosts: [{ name: HOST, sourceIps }] };
}

const SETUP: DomainSetup = {
  name: 'acme.com',
  dkimSelectorRsa: 'lh1',
  dkimRecordRsa: 'v=DKIM1; k=rsa; p=AAAA',
  dkimSelectorEd25519: 'lh2',
  dkimRecordEd25519: 'v=DKIM1; k=ed25519; p=BBBB',
  installation: readInstallationHosts([]),
};

const spfOf = (setup: Partial<DomainSetup>) =>
  requiredRecords({ ...SETUP, ...setup }).find(({ record }) => record === 'SPF')?.value;

test('a domain needs two DKIM keys and the MX and SPF of its return path', () => {
  const shape = requiredRecords(SETUP).map((record) =>
    Object.fromEntries(
      Object.entries(record).filter(([field]) => field !== 'value' && field !== 'ttl'),
    ),
  );
  assert.deepEqual(shape, [
    { record: 'DKIM', type: 'TXT', name: 'lh1._domainkey.acme.com', required: true },
    { record: 'DKIM', type: 'TXT', name: 'lh2._domainkey.acme.com', required: false },
    { record: 'MX', type: 'MX', name: 'send.acme.com', priority: 10, required: true },
    { record: 'SPF', type: 'TXT', name: 'send.acme.com', required: true },
  ]);
  const [unchecked] = uncheckedRecords(requiredRecords(SETUP));
  assert.deepEqual(
    [unchecked?.status, unchecked?.found, unchecked?.problem],
    ['not_started', [], null],
  );
});

test('SPF names the public source addresses, else the host', () => {
  assert.equal(spfOf({}), 'v=spf1 a:mail.letterhaus.example ~all');
  assert.equal(
    spfOf({ installation: readInstallationHosts(['10.0.0.5']) }),
    'v=spf1 a:mail.letterhaus.example ~all',
  );
  const value = spfOf({
    installation: readInstallationHosts(['8.8.8.8', '2606:4700::1', '192.168.0.1']),
  });
  assert.equal(value, 'v=spf1 ip4:8.8.8.8 ip6:2606:4700::1 ~all');
});

test('SPF names all machines of the installation, or a host name for many of them', () => {
  const host = (n: number, ...sourceIps: string[]) => ({
    name: `mail${n}.letterhaus.example`,
    sourceIps,
  });
  const valueOf = (hosts: InstallationHosts['hosts']) =>
    spfOf({ installation: { returnPathHost: HOST, hosts } });
  assert.equal(
    valueOf([host(1), host(2, '8.8.8.8'), host(3, '8.8.8.8', '8.8.8.9')]),
    'v=spf1 ip4:8.8.8.8 ip4:8.8.8.9 a:mail1.letterhaus.example ~all',
  );
  const many = [1, 2, 3, 4, 5, 6].map((n) => host(n));
  assert.equal(valueOf([...many, host(7, '8.8.8.8')]), `v=spf1 ip4:8.8.8.8 a:${HOST} ~all`);
});

test('another implementation of SPF passes our addresses and no others', async () => {
  const value = spfOf({ installation: readInstallationHosts(['8.8.8.8', '2606:4700::1']) }) ?? '';
  const resultFor = async (ip: string) => {
    const sender = 'b-token@send.acme.com';
    const resolver = (_: string, type: string) => Promise.resolve(type === 'TXT' ? [[value]] : []);
    return (await spf({ ip, sender, helo: 'mail.letterhaus.example', resolver })).status.result;
  };
  assert.equal(await resultFor('8.8.8.8'), 'pass');
  assert.equal(await resultFor('2606:4700::1'), 'pass');
  assert.equal(await resultFor('8.8.4.4'), 'softfail');
});
