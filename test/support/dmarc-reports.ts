/** Aggregate reports about DMARC as receivers write them (RFC 9990). */

type Row = { ip: string; count: number; dkim: string; spf: string };
const ROWS: readonly Row[] = [
  { ip: '192.0.2.1', count: 42, dkim: 'pass', spf: 'pass' },
  { ip: '203.0.113.9', count: 3, dkim: 'fail', spf: 'fail' },
  { ip: '2001:db8::1', count: 5, dkim: 'fail', spf: 'pass' },
];
const DAY_MS = 86_400_000;

export function dmarcXml(report: {
  domain: string;
  endsAtMs: number;
  beginsAtMs?: number;
  policy?: string;
  organization?: string;
  id?: string;
  rows?: readonly Row[];
}): string {
  const { domain, endsAtMs, beginsAtMs = endsAtMs - DAY_MS, policy = 'none', rows = ROWS } = report;
  const { organization = 'mx.example', id = '1' } = report;
  const records = rows.map(
    ({ ip, count, dkim, spf }) => `
  <record>
    <row>
      <source_ip>${ip}</source_ip>
      <count>${count}</count>
      <policy_evaluated><disposition>none</disposition><dkim>${dkim}</dkim><spf>${spf}</spf><reason/></policy_evaluated>
    </row>
    <identifiers><header_from>${domain}</header_from></identifiers>
    <auth_results><dkim><domain>${domain}</domain><selector/><result>${dkim}</result></dkim></auth_results>
  </record>`,
  );
  return `<?xml version="1.0" encoding="UTF-8" ?>
<feedback>
  <version>1.0</version>
  <report_metadata>
    <org_name>${organization}</org_name>
    <email>noreply@${organization}</email>
    <report_id>${id}</report_id>
    <date_range><begin>${beginsAtMs / 1_000}</begin><end>${endsAtMs / 1_000}</end></date_range>
  </report_metadata>
  <policy_published><domain>${domain}</domain><adkim>r</adkim><p>${policy}</p><sp/><pct>100</pct></policy_published>${records.join('')}
</feedback>
`;
}

export function dmarcMessage(body: Buffer, type = 'application/gzip'): Buffer {
  const lines = body.toString('base64').replaceAll(/.{76}/g, '$&\r\n');
  return Buffer.from(
    [
      'From: noreply@mx.example',
      'To: dmarc@send.acme.com',
      'Subject: Report Domain: acme.com Submitter: mx.example',
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="b"',
      '',
      '--b',
      'Content-Type: text/plain',
      '',
      'This is a DMARC aggregate report.',
      '--b',
      `Content-Type: ${type}; name="mx.example!acme.com!1!2.xml.gz"`,
      'Content-Transfer-Encoding: base64',
      '',
      lines,
      '--b--',
      '',
    ].join('\r\n'),
  );
}
