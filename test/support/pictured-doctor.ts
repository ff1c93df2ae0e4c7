/** A stored report of the doctor for the pictures of its page. That of a real run depends on the machine. */
import type { ReportedFinding } from '../../src/doctor/reports/report.ts';
import type { Service } from './service.ts';

type Parts = Pick<ReportedFinding, 'check' | 'title' | 'level' | 'found'> &
  Partial<Pick<ReportedFinding, 'meaning' | 'remedy' | 'command'>>;

const FOUND: readonly Parts[] = [
  {
    check: 'outgoing_port_25',
    title: 'Outgoing port 25',
    level: 'red',
    found: 'Connections to port 25 are refused (gmail-smtp-in.l.google.com: ECONNREFUSED).',
    meaning:
      'No mail can be delivered directly. Most likely the hosting company of this machine blocks outgoing mail.',
    remedy:
      'Ask the hosting company to open outgoing port 25, or send through a relay: set LETTERHAUS_RELAY_URL.',
    command: 'nc -vz -w 5 gmail-smtp-in.l.google.com 25',
  },
  {
    check: 'backup',
    title: 'Backup',
    level: 'red',
    found: 'No backup of this installation is known.',
    meaning: 'A lost disk loses all mail, keys and suppressions.',
    remedy: 'Set LETTERHAUS_BACKUP_TO and LETTERHAUS_BACKUP_PASSPHRASE (docs/backup.md).',
    command: 'letterhaus backup',
  },
  {
    check: 'inbound_port',
    title: 'Port for bounces',
    level: 'yellow',
    found: 'LETTERHAUS_INBOUND_PORT is not set.',
    meaning:
      'Bounces and complaints that arrive as mail are lost, unless another machine of the installation receives them.',
    remedy: 'Set LETTERHAUS_INBOUND_PORT=25, and open that port (docs/bounces.md).',
  },
  {
    check: 'certificates',
    title: 'Certificates',
    level: 'unknown',
    found: 'No certificate is configured. A proxy may have one.',
  },
  {
    check: 'configuration',
    title: 'Variables',
    level: 'green',
    found: 'All variables are valid.',
  },
  {
    check: 'host_name',
    title: 'Host name in DNS',
    level: 'green',
    found: 'mail.acme.test has the address 192.0.2.25.',
  },
];

const FINDINGS: readonly ReportedFinding[] = FOUND.map((parts) => ({
  subject: null,
  meaning: null,
  remedy: null,
  command: null,
  ...parts,
  docs: `docs/doctor.md#${parts.check}`,
}));

export async function storeReport(service: Service): Promise<void> {
  await service.sql(
    `update doctor_reports set begun_at = app_now(), finished_at = app_now(), red = 2, yellow = 1, unknown = 1,
                               green = 45, findings = $1::json`,
    [JSON.stringify(FINDINGS)],
  );
}

export async function removeReport(service: Service): Promise<void> {
  await service.sql(
    `update doctor_reports set begun_at = null, finished_at = null, red = 0, yellow = 0, unknown = 0, green = 0,
                               findings = '[]'`,
  );
}
