/**
 * The rest of the internet on one machine with Debian: DNS (NSD) with the zone of acme.com, the mail server of the
 * recipient (Postfix with Rspamd), the mail servers of the providers that the doctor greets, and the mirror of Debian,
 * whose connections this process passes on. All of it is Debian's own software with Debian's own settings, as far as
 * the files below do not say otherwise.
 */
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { installation } from '../image/build.ts';
import { runInside } from '../image/root-folder.ts';

/** Public addresses, because the service refuses private ones. Nothing of the lab leaves its namespaces. */
export const MACHINE_ADDRESS = '11.0.1.10';
const DNS_ADDRESS = '11.0.0.53';
const MIRROR_ADDRESS = '11.0.0.80';
const RECEIVER_ADDRESS = '11.0.2.25';
const PROVIDER_ADDRESSES = { 'gmail.com': '11.0.3.1', 'yahoo.com': '11.0.3.2' };
const NETWORK_BITS = 8;
export const inNetwork = (address: string): string => `${address}/${NETWORK_BITS}`;
export const INTERNET_ADDRESSES = [
  DNS_ADDRESS,
  MIRROR_ADDRESS,
  RECEIVER_ADDRESS,
  ...Object.values(PROVIDER_ADDRESSES),
].map(inNetwork);
/** For /etc/resolv.conf of every machine. */
export const RESOLVER = `nameserver ${DNS_ADDRESS}\n`;

const MIRROR_HOST = 'deb.debian.org';
/** Inside of the root folder, so that it can be reached from both sides. */
const MIRROR_SOCKET = '/srv/mirror.sock';
const ZONE_FILE = 'etc/nsd/acme.com.zone';
const PACKAGES =
  'systemd systemd-sysv dbus iproute2 ssl-cert nsd postfix rspamd redis-server ca-certificates';
const INSTALL = `
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
echo 'postfix postfix/main_mailer_type select No configuration' | debconf-set-selections
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ${PACKAGES}
rm /usr/sbin/policy-rc.d
useradd --create-home you`;

const SOA = (serial: number) => `@ 60 IN SOA ns.lab. hostmaster.lab. ${serial} 60 60 60 60`;

/** The zone that the owner of acme.com has before. The hosting company has set the reverse name of the address. */
const ACME_ZONE = `@ 60 IN NS ns.lab.
@ 60 IN MX 10 mx.acme.net.
mail 60 IN A ${MACHINE_ADDRESS}
`;

const reverse = (address: string) => `${address.split('.').toReversed().join('.')}.in-addr.arpa.`;
const host = (name: string, address: string) =>
  `${name} 60 IN A ${address}\n${reverse(address)} 60 IN PTR ${name}\n`;
const ROOT_ZONE = `$ORIGIN .
${SOA(1)}
@ 60 IN NS ns.lab.
acme.com. 60 IN NS ns.lab.
${reverse(MACHINE_ADDRESS)} 60 IN PTR mail.acme.com.
acme.net. 60 IN MX 10 mx.acme.net.
${host('ns.lab.', DNS_ADDRESS)}${host('mx.acme.net.', RECEIVER_ADDRESS)}${host(`${MIRROR_HOST}.`, MIRROR_ADDRESS)}
${Object.entries(PROVIDER_ADDRESSES)
  .map(([name, address]) => `${name}. 60 IN MX 5 mx.${name}.\n${host(`mx.${name}.`, address)}`)
  .join('')}`;

/** The receiver refuses a client without reverse DNS and a name in EHLO that does not exist, as large ones do. */
const MAIN_CF = `compatibility_level = 3.6
myhostname = mx.acme.net
mydestination = acme.net
alias_maps =
inet_interfaces = all
inet_protocols = ipv4
smtpd_tls_cert_file = /etc/ssl/certs/ssl-cert-snakeoil.pem
smtpd_tls_key_file = /etc/ssl/private/ssl-cert-snakeoil.key
smtpd_tls_security_level = may
smtpd_helo_required = yes
smtpd_helo_restrictions = reject_invalid_helo_hostname, reject_non_fqdn_helo_hostname, reject_unknown_helo_hostname
smtpd_sender_restrictions = reject_unknown_client_hostname, reject_unknown_sender_domain
smtpd_relay_restrictions = reject_unauth_destination
smtpd_milters = inet:127.0.0.1:11332
milter_default_action = tempfail
milter_protocol = 6
`;

const FILES: Readonly<Record<string, string>> = {
  'etc/resolv.conf': RESOLVER,
  'etc/postfix/main.cf': MAIN_CF,
  'etc/rspamd/local.d/redis.conf': 'servers = "127.0.0.1";\n',
  'etc/rspamd/local.d/milter_headers.conf':
    'use = ["authentication-results", "x-spamd-result"];\nskip_local = false;\n',
  'etc/nsd/nsd.conf.d/lab.conf': `server:
  ip-address: ${DNS_ADDRESS}
  ip-freebind: yes
zone:
  name: "."
  zonefile: "/etc/nsd/root.zone"
zone:
  name: "acme.com"
  zonefile: "/${ZONE_FILE}"
`,
  'etc/nsd/root.zone': ROOT_ZONE,
  'etc/systemd/system/mirror.socket': `[Socket]
ListenStream=${MIRROR_ADDRESS}:80
FreeBind=yes
[Install]
WantedBy=sockets.target
`,
  'etc/systemd/system/mirror.service': `[Service]
ExecStart=/usr/lib/systemd/systemd-socket-proxyd ${MIRROR_SOCKET}
`,
};

/** Installs the packages in a root folder with Debian, with the network of this machine. */
export async function installInternet(root: string): Promise<void> {
  await runInside(installation(root), ['sh', '-euc', INSTALL]);
}

/** Writes the settings. The machine can boot afterwards. */
export function configureInternet(root: string): void {
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    rmSync(join(root, path), { force: true });
    writeFileSync(join(root, path), text);
  }
  writeFileSync(join(root, ZONE_FILE), `$ORIGIN acme.com.\n${SOA(1)}\n${ACME_ZONE}`);
  const wants = join(root, 'etc/systemd/system/sockets.target.wants');
  mkdirSync(wants, { recursive: true });
  rmSync(join(wants, 'mirror.socket'), { force: true });
  symlinkSync('../mirror.socket', join(wants, 'mirror.socket'));
}

/** Adds records to the zone of acme.com, as its owner does in the panel. NSD has to read it again. */
export function addToZone(root: string, records: string): void {
  const text = `$ORIGIN acme.com.\n${SOA(2)}\n${ACME_ZONE}${records}`;
  writeFileSync(join(root, ZONE_FILE), text);
}

/** Passes connections to the mirror of Debian on: the lab itself has no way out. */
export async function openMirror(root: string): Promise<AsyncDisposable> {
  const server: Server = createServer((inside) => {
    const outside = connect(80, MIRROR_HOST);
    inside.on('error', () => outside.destroy()).pipe(outside);
    outside.on('error', () => inside.destroy()).pipe(inside);
  });
  const path = join(root, MIRROR_SOCKET);
  rmSync(path, { force: true });
  await new Promise<void>((resolve) =>
    server.listen({ path, readableAll: true, writableAll: true }, resolve),
  );
  return {
    [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

/** Returns the mailbox of you@acme.net. */
export function readMailbox(root: string): string {
  return readFileSync(join(root, 'var/mail/you'), 'utf8');
}
