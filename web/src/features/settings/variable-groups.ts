/** The variables of the service in groups, in the order of docs/configuration.md. */
import type { Variable } from '../../../../sdk/src/api.ts';

type Group = {
  title: string;
  /** Section of the handbook's page about the configuration. */
  section: string;
  names: RegExp;
};

/** The first group that a name matches has it. */
const GROUPS: readonly Group[] = [
  { title: 'Notices to the operator', section: 'notices-to-the-operator', names: /_OPERATOR_/ },
  { title: 'Doctor', section: 'the-daily-doctor', names: /_(DOCTOR|SPAMHAUS_KEY)$/ },
  { title: 'Certificates', section: 'certificates', names: /_ACME/ },
  { title: 'Identity provider (SSO)', section: 'identity-provider', names: /_OIDC_/ },
  {
    title: 'Limits',
    section: 'limits',
    names: /_LIMIT_|_(DOMAINS|SUPPRESSIONS)_MAX$|_STORAGE_MAX_MB$/,
  },
  { title: 'How long mail is kept', section: 'how-long-mail-is-kept', names: /_RETENTION_/ },
  { title: 'Backups', section: 'backups', names: /_BACKUP_|_POINT_IN_TIME|^AWS_/ },
  {
    title: 'DNS provider',
    section: 'the-dns-provider',
    names: /_DNS_(PROVIDER|API_URL)$|^(CLOUDFLARE|HCLOUD|DIGITALOCEAN|DESEC)_/,
  },
  {
    title: 'How mail leaves',
    section: 'how-mail-leaves',
    names: /_(HOSTNAME|RELAY_URL|SOURCE_IPS|SHAPING|RETRY_WAITS|DNS_SERVERS|DNS_TRUST_AD)$/,
  },
  {
    title: 'How mail comes in',
    section: 'how-mail-comes-in',
    names: /_(SUBMISSION_|INBOUND_|SMTP_HOST|UNMATCHED|SMTP_CLIENT|TLS_CERT$|TLS_KEY$)/,
  },
  {
    title: 'Where it runs',
    section: 'where-it-runs',
    names:
      /^(HOST|PORT)$|_(PUBLIC_URL|TRACKING_URL|TRUSTED_PROXIES|LOG|LOG_RECIPIENTS)$|_API_TLS_|_METRICS_/,
  },
  {
    title: 'Where it stores things',
    section: 'where-it-stores-things',
    names:
      /^DATABASE_URL$|_(DATA_DIR|SECRET_KEY|DATABASE_MAX_MB|ACCEPT_DATABASE_DURABILITY|MIGRATE_WITHOUT_BACKUP|ENV_FILE)$/,
  },
];

const OTHERS = { title: 'Others', section: '' };

export type VariableGroup = { title: string; section: string; variables: Variable[] };

/** @param find only variables whose name or group contains it */
export function groupsOf(variables: readonly Variable[], find = ''): VariableGroup[] {
  const wanted = find.trim().toLowerCase();
  const ofGroup = (name: string) => GROUPS.find(({ names }) => names.test(name)) ?? OTHERS;
  return [...GROUPS, OTHERS].flatMap((group) => {
    const { title, section } = group;
    const own = variables.filter(({ name }) => ofGroup(name) === group);
    const isFound = title.toLowerCase().includes(wanted);
    const shown = own.filter(({ name }) => isFound || name.toLowerCase().includes(wanted));
    return shown.length === 0 ? [] : [{ title, section, variables: shown }];
  });
}
