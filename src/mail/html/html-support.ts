/**
 * Finds html that well-known mail programs do not show, and useless links and images. It is advice for the dashboard
 * and for API clients; nothing depends on it. Linear in the html, of which READ_CHARS_MAX characters are read.
 *
 * The facts come from caniemail.com. "Outlook" is Outlook for Windows, which renders like Word. The list contains
 * features that authors use and a large program lacks. It is not complete.
 */
import { attributeOf, scanHtml } from './html.ts';

export type UnsupportedFeature = { feature: string; clients: readonly string[] };

export type HtmlFinding = { code: string; message: string };

export type HtmlReport = {
  unsupported: UnsupportedFeature[];
  findings: HtmlFinding[];
  /** Links in order of first use, each once, at most LINKS_MAX. */
  links: string[];
};

/** Ten times as much as Gmail shows. */
const READ_CHARS_MAX = 1024 * 1024;
const LINKS_MAX = 100;
const LINK_CHARS_MAX = 2_000;
/** Gmail ignores a longer style element. */
const STYLE_CHARS_MAX = 8_192;

const EVERYWHERE = ['all mail programs'];
const NOT_IN_OUTLOOK = ['Outlook'];
const ONLY_IN_APPLE_MAIL = ['Gmail', 'Outlook', 'Yahoo'];

const BY_ELEMENT = new Map<string, UnsupportedFeature>();
for (const [elements, feature, clients] of [
  ['script', 'scripts', EVERYWHERE],
  ['iframe frame object embed', 'embedded pages', EVERYWHERE],
  ['form input select textarea', 'forms', NOT_IN_OUTLOOK],
  ['video audio', 'video and audio', ONLY_IN_APPLE_MAIL],
  ['svg', 'SVG in the html', ['Gmail', 'Outlook']],
] as const) {
  for (const element of elements.split(' ')) BY_ELEMENT.set(element, { feature, clients });
}

const BY_CSS: readonly (UnsupportedFeature & { css: RegExp })[] = [
  {
    feature: 'flexible boxes',
    clients: NOT_IN_OUTLOOK,
    css: /display\s{0,9}:\s{0,9}(?:inline-)?flex/i,
  },
  { feature: 'grids', clients: NOT_IN_OUTLOOK, css: /display\s{0,9}:\s{0,9}(?:inline-)?grid/i },
  {
    feature: 'positioned elements',
    clients: ['Gmail', 'Outlook'],
    css: /(?:^|[;{\s])position\s{0,9}:/i,
  },
  {
    feature: 'background images',
    clients: NOT_IN_OUTLOOK,
    css: /background(?:-image)?\s{0,9}:[^;}]{0,99}url\(/i,
  },
  { feature: 'round corners', clients: NOT_IN_OUTLOOK, css: /border-radius\s{0,9}:/i },
  { feature: 'CSS variables', clients: ONLY_IN_APPLE_MAIL, css: /var\(\s{0,9}--/i },
  { feature: 'web fonts', clients: ONLY_IN_APPLE_MAIL, css: /@font-face/i },
  { feature: 'imported styles', clients: ['Gmail', 'Outlook'], css: /@import/i },
  { feature: 'animations', clients: ['Gmail', 'Outlook'], css: /@keyframes/i },
];
const LOCAL = /^https?:\/\/(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1\])(?:[:/?#]|$)/i;

export function checkHtmlSupport(source: string): HtmlReport {
  const html = source.slice(0, READ_CHARS_MAX);
  const facts: HtmlFacts = {
    elements: new Set(),
    css: [],
    links: new Set(),
    withoutAlt: 0,
    dataImages: 0,
  };
  scanHtml(html, {
    text: () => {},
    close: () => {},
    open: (name, attributes) => recordTag(facts, name, attributes),
  });
  const styles = stylesIn(html);
  return {
    unsupported: unsupportedIn({ ...facts, css: [...facts.css, ...styles] }),
    findings: findingsIn(facts, styles),
    links: [...facts.links].slice(0, LINKS_MAX),
  };
}

type HtmlFacts = {
  elements: Set<string>;
  css: string[];
  links: Set<string>;
  withoutAlt: number;
  dataImages: number;
};

function recordTag(facts: HtmlFacts, name: string, attributes: string): void {
  facts.elements.add(name);
  const style = attributeOf(attributes, 'style');
  if (style) facts.css.push(style);
  if (name === 'a' || name === 'area') {
    const href = attributeOf(attributes, 'href');
    if (href !== null) facts.links.add(href.trim().slice(0, LINK_CHARS_MAX));
  }
  if (name === 'link' && /\brel\s{0,9}=\s{0,9}["']?stylesheet/i.test(attributes)) {
    facts.elements.add('link to styles');
  }
  if (name !== 'img') return;
  if (attributeOf(attributes, 'alt') === null) facts.withoutAlt += 1;
  if (/^\s*data:/i.test(attributeOf(attributes, 'src') ?? '')) facts.dataImages += 1;
}

function stylesIn(html: string): string[] {
  const lower = html.toLowerCase();
  const styles: string[] = [];
  for (let at = lower.indexOf('<style'); at !== -1;) {
    const start = lower.indexOf('>', at) + 1;
    if (start === 0) break;
    const end = lower.indexOf('</style', start);
    styles.push(html.slice(start, end === -1 ? html.length : end));
    if (end === -1) break;
    at = lower.indexOf('<style', end);
  }
  return styles;
}

function unsupportedIn({ elements, css, dataImages }: HtmlFacts): UnsupportedFeature[] {
  const found = new Map<string, UnsupportedFeature>();
  const add = ({ feature, clients }: UnsupportedFeature) =>
    found.set(feature, { feature, clients });
  for (const element of elements) {
    const unsupported = BY_ELEMENT.get(element);
    if (unsupported) add(unsupported);
  }
  if (elements.has('link to styles'))
    add({ feature: 'styles in files', clients: ONLY_IN_APPLE_MAIL });
  if (dataImages > 0) add({ feature: 'images in data: URLs', clients: ['Gmail', 'Outlook'] });
  for (const { css: pattern, ...unsupported } of BY_CSS) {
    if (css.some((text) => pattern.test(text))) add(unsupported);
  }
  return [...found.values()];
}

function findingsIn({ links, withoutAlt }: HtmlFacts, styles: readonly string[]): HtmlFinding[] {
  const findings: HtmlFinding[] = [];
  const add = (code: string, message: string) => findings.push({ code, message });
  if (withoutAlt > 0) {
    const which = withoutAlt === 1 ? '1 image has' : `${withoutAlt} images have`;
    add('images_without_alt', `${which} no alt text, which is shown where images are not loaded.`);
  }
  if ([...links].some((link) => link === '' || link === '#')) {
    add('empty_links', 'A link leads nowhere: its href is empty or "#".');
  }
  const local = [...links].find((link) => LOCAL.test(link));
  if (local !== undefined) {
    add(
      'local_links',
      `${local.slice(0, 100)} leads to the reader's own machine: use a public address.`,
    );
  }
  if (styles.some(({ length }) => length > STYLE_CHARS_MAX)) {
    add('long_styles', 'Gmail leaves out a style element of more than 8,192 characters: split it.');
  }
  return findings;
}
