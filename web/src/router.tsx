/**
 * The pages and their addresses, like /dashboard/PROJECT/ENVIRONMENT/emails/ID?tab=…. An address holds the whole
 * state of a page, so a link shows the same to everybody who may see it. Screens are loaded on first use.
 */
import { QueryClient } from '@tanstack/react-query';
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  parseSearchWith,
  redirect,
  stringifySearchWith,
} from '@tanstack/react-router';
import { SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { call, type Scope, whenSignedOut } from './api/client.ts';
import { coverPage } from './api/cover.ts';
import { retryDelayMs, retryRead } from './api/stream/connection.ts';
import {
  ENVIRONMENTS,
  isFirstVisit,
  rememberScope,
  scopeToOpen,
  sessionQuery,
} from './api/session.ts';
import { Shell } from './shell/shell.tsx';
import { SignInAgain } from './features/sign-in/sign-in-again.tsx';
import { importWhenOnline } from './lib/lazy-import.ts';
import { Pending } from './ui/pending.tsx';
import { buttonLook } from './ui/button.tsx';
import { Problem, StatePage } from './ui/states.tsx';

/** A screen that is loaded on first use, as soon as the service can be reached. */
const screen: typeof lazyRouteComponent = (load, name) =>
  lazyRouteComponent(() => importWhenOnline(load), name);

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      // A service on the same machine can be read without a network.
      networkMode: 'offlineFirst',
      retry: retryRead,
      retryDelay: retryDelayMs,
    },
  },
});

function NotFound(): ReactNode {
  return (
    <StatePage
      title="Page not found"
      icon={SearchX}
      action={
        <a href="/dashboard/" className={buttonLook({ look: 'primary' })}>
          Go to Overview
        </a>
      }
    >
      <p>Nothing is at this address. Check it for a typo.</p>
    </StatePage>
  );
}

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: NotFound,
});

const signIn = createRoute({
  getParentRoute: () => root,
  path: '/sign-in',
  validateSearch: (search): { to?: string } =>
    typeof search['to'] === 'string' ? { to: search['to'] } : {},
  // index.html has preloaded the session. Unless it is read before, the first reading after sign-in gets that old 401.
  beforeLoad: () => void queries.prefetchQuery(sessionQuery),
  component: screen(() => import('./features/sign-in/sign-in.tsx'), 'SignIn'),
});

/** For members who have yet to set up the second factor that the installation requires. */
const enrol = createRoute({
  getParentRoute: () => root,
  path: '/enrol',
  beforeLoad: async () => {
    const session = await queries.ensureQueryData(sessionQuery);
    if (!session) throw redirect({ to: '/sign-in' });
  },
  component: lazyRouteComponent(() => import('./features/settings/enrolment.tsx'), 'Enrolment'),
});

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: async () => {
    const session = await queries.ensureQueryData(sessionQuery);
    const scope = session && scopeToOpen(session);
    if (!scope) throw redirect({ to: '/sign-in' });
    const isNew = isFirstVisit() && !(await hasEmails(scope));
    const to = isNew ? '/$project/$environment/setup' : '/$project/$environment/emails';
    throw redirect({ to, params: scope });
  },
});

/** Returns whether somebody has sent with this project. Without an answer the screen says why. */
async function hasEmails({ project }: Scope): Promise<boolean> {
  const query = { limit: 1 };
  const lists = ENVIRONMENTS.map((environment) =>
    call('listEmails', { query, scope: { project, environment } }),
  );
  const all = await Promise.all(lists).catch(() => []);
  return all.some(({ data }) => data.length > 0);
}

const scoped = createRoute({
  getParentRoute: () => root,
  path: '/$project/$environment',
  beforeLoad: async ({ params, location }) => {
    const session = await queries.ensureQueryData(sessionQuery);
    if (!session) throw redirect({ to: '/sign-in', search: { to: location.href } });
    if (session.must_enrol) throw redirect({ to: '/enrol' });
    const scope = params as Scope;
    const isThere =
      session.projects.some(({ id }) => id === scope.project) &&
      ENVIRONMENTS.includes(scope.environment);
    if (!isThere) throw redirect({ to: '/' });
    rememberScope(scope);
  },
  // Inside the shell, with its navigation.
  notFoundComponent: NotFound,
  component: () => (
    <>
      <Shell />
      <SignInAgain />
    </>
  ),
});

/** Keeps these names in the query of an address, and drops others. */
function texts<Name extends string>(...names: Name[]) {
  return (search: Record<string, unknown>): Partial<Record<Name, string>> =>
    Object.fromEntries(
      names.flatMap((name) => {
        const value = search[name];
        const isText = ['string', 'number', 'boolean'].includes(typeof value);
        return isText && value !== '' ? [[name, String(value)]] : [];
      }),
    ) as Partial<Record<Name, string>>;
}

const emails = createRoute({
  getParentRoute: () => scoped,
  path: '/emails',
  validateSearch: texts('q'),
  component: screen(() => import('./features/emails/list/emails.tsx'), 'EmailsScreen'),
});

const email = createRoute({
  getParentRoute: () => emails,
  path: '$id',
  validateSearch: texts('tab', 'width', 'dark', 'recipient', 'attempt'),
  component: screen(() => import('./features/emails/page/email.tsx'), 'EmailScreen'),
});

const testInbox = createRoute({
  getParentRoute: () => scoped,
  path: '/test-inbox',
  validateSearch: texts('q'),
  component: screen(() => import('./features/emails/inbox/test-inbox.tsx'), 'TestInboxScreen'),
});

const testInboxEmail = createRoute({
  getParentRoute: () => testInbox,
  path: '$id',
  validateSearch: texts('tab', 'width', 'dark'),
  component: screen(
    () => import('./features/emails/inbox/test-inbox-email.tsx'),
    'TestInboxEmailScreen',
  ),
});

const recipients = createRoute({
  getParentRoute: () => scoped,
  path: '/recipients',
  validateSearch: texts('q', 'show'),
  component: screen(() => import('./features/recipients/recipients.tsx'), 'RecipientsScreen'),
});

const recipient = createRoute({
  getParentRoute: () => scoped,
  path: '/recipients/$address',
  validateSearch: texts('show'),
  component: screen(() => import('./features/recipients/recipient.tsx'), 'RecipientScreen'),
});

const overview = createRoute({
  getParentRoute: () => scoped,
  path: '/overview',
  validateSearch: texts('range', 'with', 'by'),
  component: screen(() => import('./features/overview/overview.tsx'), 'OverviewScreen'),
});

const domains = createRoute({
  getParentRoute: () => scoped,
  path: '/domains',
  component: screen(() => import('./features/domains/domains.tsx'), 'DomainsScreen'),
});

const domain = createRoute({
  getParentRoute: () => scoped,
  path: '/domains/$id',
  component: screen(() => import('./features/domains/domain.tsx'), 'DomainScreen'),
});

const apiKeys = createRoute({
  getParentRoute: () => scoped,
  path: '/api-keys',
  component: screen(() => import('./features/api-keys/api-keys.tsx'), 'ApiKeysScreen'),
});

const queue = createRoute({
  getParentRoute: () => scoped,
  path: '/queue',
  validateSearch: texts('scope', 'provider'),
  component: screen(() => import('./features/queue/queue.tsx'), 'QueueScreen'),
});

const webhooks = createRoute({
  getParentRoute: () => scoped,
  path: '/webhooks',
  component: screen(() => import('./features/webhooks/webhooks.tsx'), 'WebhooksScreen'),
});

const webhook = createRoute({
  getParentRoute: () => scoped,
  path: '/webhooks/$id',
  validateSearch: texts('status', 'type', 'code', 'period', 'q', 'delivery', 'replay'),
  component: screen(() => import('./features/webhooks/webhook.tsx'), 'WebhookScreen'),
});

const templates = createRoute({
  getParentRoute: () => scoped,
  path: '/templates',
  validateSearch: texts('q'),
  component: screen(() => import('./features/templates/templates.tsx'), 'TemplatesScreen'),
});

const template = createRoute({
  getParentRoute: () => scoped,
  path: '/templates/$id',
  validateSearch: texts('part'),
  component: screen(() => import('./features/templates/template.tsx'), 'TemplateScreen'),
});

const templateVersions = createRoute({
  getParentRoute: () => scoped,
  path: '/templates/$id/versions',
  validateSearch: texts('version', 'view', 'with'),
  component: screen(
    () => import('./features/templates/template-versions.tsx'),
    'TemplateVersionsScreen',
  ),
});

const suppressions = createRoute({
  getParentRoute: () => scoped,
  path: '/suppressions',
  validateSearch: texts('address'),
  component: screen(() => import('./features/suppressions/suppressions.tsx'), 'SuppressionsScreen'),
});

const members = createRoute({
  getParentRoute: () => scoped,
  path: '/members',
  component: screen(() => import('./features/members/members.tsx'), 'MembersScreen'),
});

const auditLog = createRoute({
  getParentRoute: () => scoped,
  path: '/audit-log',
  validateSearch: texts('object', 'action', 'actor', 'target', 'from', 'to'),
  component: screen(() => import('./features/logs/audit-log.tsx'), 'AuditLogScreen'),
});

const apiLog = createRoute({
  getParentRoute: () => scoped,
  path: '/api-log',
  validateSearch: texts('id', 'status', 'method', 'key_id', 'member_id', 'from', 'to'),
  component: screen(() => import('./features/logs/api-log.tsx'), 'ApiLogScreen'),
});

const projects = createRoute({
  getParentRoute: () => scoped,
  path: '/projects',
  component: screen(() => import('./features/projects/projects.tsx'), 'ProjectsScreen'),
});

const doctor = createRoute({
  getParentRoute: () => scoped,
  path: '/doctor',
  component: lazyRouteComponent(() => import('./features/doctor/doctor.tsx'), 'DoctorScreen'),
});

const setup = createRoute({
  getParentRoute: () => scoped,
  path: '/setup',
  validateSearch: texts('language', 'step'),
  component: screen(() => import('./features/setup/setup.tsx'), 'SetupScreen'),
});

const settings = createRoute({
  getParentRoute: () => scoped,
  path: '/settings',
  validateSearch: texts('tab'),
  component: screen(() => import('./features/settings/settings.tsx'), 'SettingsScreen'),
});

const screens = [
  overview,
  emails.addChildren([email]),
  recipients,
  recipient,
  testInbox.addChildren([testInboxEmail]),
  templates,
  template,
  templateVersions,
  queue,
  domains,
  domain,
  apiKeys,
  webhooks,
  webhook,
  suppressions,
  members,
  auditLog,
  apiLog,
  projects,
  doctor,
  setup,
  settings,
];

export const router = createRouter({
  routeTree: root.addChildren([enrol, start, signIn, scoped.addChildren(screens)]),
  basepath: '/dashboard',
  // All values are texts; as JSON, those that look like numbers would be in quotes.
  parseSearch: parseSearchWith(String),
  stringifySearch: stringifySearchWith(String),
  // Inside the shell, so that the navigation stays visible.
  defaultErrorComponent: ({ error, reset }) => <Problem error={error} retry={reset} />,
  defaultPendingComponent: Pending,
  defaultPreload: 'intent',
  scrollRestoration: true,
});

// An open page stays, with what was typed in it, below a form to sign in. Other pages lead to sign-in and back.
whenSignedOut(() => {
  if (router.state.matches.some(({ routeId }) => routeId === scoped.id)) coverPage(true);
  else {
    queries.setQueryData(sessionQuery.queryKey, null);
    void router.invalidate();
  }
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}

declare module '@tanstack/history' {
  interface HistoryState {
    /** The search has the focus when the page appears. */
    isSearching?: boolean;
    /** The dialog for a new object is open when the page appears. */
    isCreating?: boolean;
    /** The list is walked by keys, and keeps the focus. */
    isWalking?: boolean;
  }
}
