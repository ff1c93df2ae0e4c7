/** How the panels of DNS providers take a record: which part of the name, and in which form the value. */

type Panel = {
  name: string;
  /** `separate`: the priority of an MX has a field of its own. */
  priority: 'separate' | 'in_value';
  /** The host of an MX ends with a dot. */
  hasDot: boolean;
  /** A TXT is in quotes, a long one in several. */
  isQuoted: boolean;
  /** Label of the field for the name. */
  nameField: string;
  hint?: string;
};

const PLAIN = { priority: 'separate', hasDot: false, isQuoted: false } as const;
const ZONE_FILE = { priority: 'in_value', hasDot: true, isQuoted: true } as const;

export const DNS_PANELS: Readonly<Record<string, Panel>> = {
  other: { ...PLAIN, name: 'Another provider', nameField: 'Name' },
  cloudflare: { ...PLAIN, name: 'Cloudflare', nameField: 'Name' },
  desec: { ...ZONE_FILE, name: 'deSEC', nameField: 'Subname' },
  digitalocean: { ...PLAIN, hasDot: true, name: 'DigitalOcean', nameField: 'Hostname' },
  gandi: { ...ZONE_FILE, name: 'Gandi', nameField: 'Name' },
  godaddy: { ...PLAIN, name: 'GoDaddy', nameField: 'Name' },
  hetzner: { ...ZONE_FILE, name: 'Hetzner', nameField: 'Name' },
  ionos: { ...PLAIN, name: 'IONOS', nameField: 'Host name' },
  namecheap: {
    ...PLAIN,
    name: 'Namecheap',
    nameField: 'Host',
    hint: 'MX records are in the section Mail Settings: choose Custom MX there first, and keep the MX records that you have.',
  },
  ovh: { ...PLAIN, hasDot: true, name: 'OVHcloud', nameField: 'Sub-domain' },
  porkbun: { ...PLAIN, name: 'Porkbun', nameField: 'Host' },
  route53: { ...ZONE_FILE, hasDot: false, name: 'Amazon Route 53', nameField: 'Record name' },
  squarespace: { ...PLAIN, name: 'Squarespace', nameField: 'Host' },
};

export type PanelRecord = {
  type: string;
  name: string;
  value: string;
  priority?: number | undefined;
};

/** Values for the fields of a panel. */
export type PanelFields = { name: string; value: string; priority: number | null };

const TXT_BYTES_MAX = 255;

export function fieldsFor(panel: string, zone: string, record: PanelRecord): PanelFields {
  const { priority: place, hasDot, isQuoted } = DNS_PANELS[panel] ?? DNS_PANELS['other']!;
  const { type, value, priority = 10 } = record;
  const name = nameInZone(record.name, zone);
  if (type !== 'MX') return { name, value: isQuoted ? quoted(value) : value, priority: null };
  const host = hasDot ? `${value}.` : value;
  return place === 'separate'
    ? { name, value: host, priority }
    : { name, value: `${priority} ${host}`, priority: null };
}

/** Panels append the zone to a name, and write `@` for the zone itself. */
export function nameInZone(name: string, zone: string): string {
  if (name === zone) return '@';
  return name.endsWith(`.${zone}`) ? name.slice(0, -(zone.length + 1)) : name;
}

function quoted(text: string): string {
  const pieces = text.match(new RegExp(`.{1,${TXT_BYTES_MAX}}`, 'gs')) ?? [''];
  return pieces.map((piece) => `"${piece.replaceAll('"', String.raw`\"`)}"`).join(' ');
}

/** Second labels of public suffixes such as `co.uk`, below which domains are registered. */
const SUFFIX_LABELS = /^(ac|co|com|edu|gov|net|or|org)$/;

/** Zones that may have the records of a domain: itself and its parents, the most likely one first. */
export function zonesOf(domain: string): string[] {
  const labels = domain.split('.');
  const isSuffix =
    labels.length > 2 && SUFFIX_LABELS.test(labels.at(-2) ?? '') && labels.at(-1)?.length === 2;
  const least = isSuffix ? 3 : 2;
  const zones = labels.map((_, index) => labels.slice(index).join('.'));
  return zones.slice(0, Math.max(1, labels.length - least + 1)).toReversed();
}
