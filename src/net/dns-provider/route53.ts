/**
 * Zones at Route 53 of AWS: API 2013-04-01 in XML, sets of records, requests signed with SigV4.
 * https://docs.aws.amazon.com/Route53/latest/APIReference/
 *
 * A change deletes the set as it was read and creates the new one, in one batch. AWS refuses the batch when somebody
 * changed the set meanwhile, so nothing of others is lost.
 */
import { decodeXML, escapeUTF8 } from 'entities';
import { ApiClient, type KeyAccess } from './api-client.ts';
import { possibleZones, type DnsZone, type StoredRecord, type ZoneApi } from './dns-provider.ts';
import { asRecordType, fromZoneFile, plainName, toZoneFile } from './record-text.ts';

const VERSION = '/2013-04-01';
const NAMESPACE = 'https://route53.amazonaws.com/doc/2013-04-01/';
/** Route 53 is global and signed for this region. */
const REGION = 'us-east-1';
const LATER = /^(?:Throttling|ThrottlingException|PriorRequestNotComplete)$/;
const TOKEN =
  /^(?:InvalidClientTokenId|SignatureDoesNotMatch|AccessDenied|ExpiredToken|UnrecognizedClientException|MissingAuthenticationToken)$/;

export function route53(access: KeyAccess): ZoneApi {
  const client = createClient(access);

  async function replace(zone: DnsZone, before: readonly StoredRecord[], after: NewSet | null) {
    const changes = [
      before.length === 0 ? '' : changeXml('DELETE', setOf(before)),
      after === null ? '' : changeXml('CREATE', after),
    ];
    const body = `<?xml version="1.0" encoding="UTF-8"?><ChangeResourceRecordSetsRequest xmlns="${NAMESPACE}"><ChangeBatch><Changes>${changes.join('')}</Changes></ChangeBatch></ChangeResourceRecordSetsRequest>`;
    await client.send({ method: 'POST', path: `${VERSION}/hostedzone/${zone.id}/rrset/`, body });
  }

  return {
    name: 'Route 53',
    async findZone(name) {
      for (const candidate of possibleZones(name)) {
        const query = { dnsname: candidate, maxitems: '10' };
        const { text } = await client.send({ path: `${VERSION}/hostedzonesbyname`, query });
        // The list begins at the name, in the order of names, and contains private zones of networks too.
        const zone = elementsIn(text, 'HostedZone').find(
          (xml) =>
            plainName(textIn(xml, 'Name') ?? '') === candidate &&
            textIn(xml, 'PrivateZone') !== 'true',
        );
        const id = zone === undefined ? null : textIn(zone, 'Id');
        if (id !== null) {
          return { id: id.replace('/hostedzone/', ''), name: candidate, ttlMinS: 0 };
        }
      }
      return null;
    },
    async list(zone, name) {
      const path = `${VERSION}/hostedzone/${zone.id}/rrset`;
      const first = { path, query: { name: `${name}.`, maxitems: '300' } };
      const sets = await client.pages(first, async (request) => {
        const { text } = await client.send(request);
        const rows = elementsIn(text, 'ResourceRecordSet');
        const nextName = textIn(text, 'NextRecordName');
        if (textIn(text, 'IsTruncated') !== 'true' || nameOf(nextName) !== name) {
          return { rows, next: null };
        }
        const type = textIn(text, 'NextRecordType') ?? 'A';
        const identifier = textIn(text, 'NextRecordIdentifier');
        const query = { ...first.query, type, ...(identifier !== null && { identifier }) };
        return { rows, next: { path, query } };
      });
      return sets
        .filter((xml) => nameOf(textIn(xml, 'Name')) === name)
        .flatMap((xml) => recordsIn(xml, name));
    },
    async add(zone, record, set) {
      const { ttlS, values } = set.length === 0 ? { ttlS: record.ttlS, values: [] } : setOf(set);
      const { name, type } = record;
      await replace(zone, set, { name, type, ttlS, values: [...values, toZoneFile(record)] });
    },
    async remove(zone, record, set) {
      const others = set.filter((one) => one !== record);
      await replace(zone, set, others.length === 0 ? null : setOf(others));
    },
  };
}

function createClient(access: KeyAccess): ApiClient {
  const { accessKeyId, secretAccessKey, sessionToken, baseUrl, world, timing } = access;
  return new ApiClient({
    name: 'Route 53',
    baseUrl,
    secrets: [secretAccessKey, sessionToken ?? ''],
    tokenVariable: 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
    rightNeeded:
      'the actions ListHostedZonesByName, ListResourceRecordSets and ChangeResourceRecordSets',
    headers: async ({ method, url, body }) => {
      const { AwsV4Signer } = await import('aws4fetch');
      const signer = new AwsV4Signer({
        method,
        url,
        ...(body !== '' && { body, headers: { 'content-type': 'application/xml' } }),
        accessKeyId,
        secretAccessKey,
        ...(sessionToken !== null && { sessionToken }),
        service: 'route53',
        region: REGION,
        datetime: new Date(world.now()).toISOString().replaceAll(/[:-]|\.\d{3}/g, ''),
      });
      return (await signer.sign()).headers;
    },
    reason: (text) => textIn(text, 'Message'),
    kindOf: (_, text) => {
      const code = textIn(text, 'Code') ?? '';
      if (LATER.test(code)) return 'later';
      return TOKEN.test(code) ? 'token' : null;
    },
    world,
    timing,
  });
}

type NewSet = { name: string; type: string; ttlS: number; values: string[] };

function setOf(records: readonly StoredRecord[]): NewSet {
  const [{ name, type, ttlS }] = records as [StoredRecord];
  return { name, type, ttlS, values: records.map(({ raw }) => raw) };
}

function changeXml(action: string, { name, type, ttlS, values }: NewSet): string {
  const records = values
    .map((value) => `<ResourceRecord><Value>${escapeUTF8(value)}</Value></ResourceRecord>`)
    .join('');
  return `<Change><Action>${action}</Action><ResourceRecordSet><Name>${escapeUTF8(name)}.</Name><Type>${type}</Type><TTL>${ttlS}</TTL><ResourceRecords>${records}</ResourceRecords></ResourceRecordSet></Change>`;
}

/** An alias has no values and no TTL, and so no records here. */
function recordsIn(xml: string, name: string): StoredRecord[] {
  const type = asRecordType(textIn(xml, 'Type') ?? '');
  if (type === null) return [];
  const ttlS = Number(textIn(xml, 'TTL') ?? 0);
  return elementsIn(xml, 'Value').map((escaped) => {
    const raw = decodeXML(escaped);
    return { id: null, name, type, value: fromZoneFile(type, raw), ttlS, raw };
  });
}

/** Names come with octal escapes for characters such as `*`. */
function nameOf(text: string | null): string {
  const decoded = (text ?? '').replaceAll(/\\(\d{3})/g, (_, octal: string) =>
    String.fromCodePoint(Number.parseInt(octal, 8)),
  );
  return plainName(decoded);
}

function elementsIn(xml: string, tag: string): string[] {
  const pattern = new RegExp(`<${tag}(?: [^>]*)?>(.*?)</${tag}>`, 'gs');
  return [...xml.matchAll(pattern)].map(([, content = '']) => content);
}

function textIn(xml: string, tag: string): string | null {
  const [content] = elementsIn(xml, tag);
  return content === undefined ? null : decodeXML(content);
}
