/** The screens in the order of the navigation. */
import {
  ArrowLeftRight,
  Ban,
  ChartNoAxesColumn,
  FileText,
  FolderOpen,
  Globe,
  Hourglass,
  Inbox,
  KeyRound,
  type LucideIcon,
  Mail,
  Webhook,
  ScrollText,
  Settings,
  Stethoscope,
  Users,
} from 'lucide-react';
import { type Operation, useMay } from '../ui/allowed.tsx';

type Path =
  | '/overview'
  | '/emails'
  | '/test-inbox'
  | '/templates'
  | '/queue'
  | '/domains'
  | '/api-keys'
  | '/webhooks'
  | '/suppressions'
  | '/members'
  | '/audit-log'
  | '/api-log'
  | '/projects'
  | '/doctor'
  | '/settings';

export type ScreenLink = {
  to: `/$project/$environment${Path}`;
  label: string;
  icon: LucideIcon;
  /** The second key of the shortcut `g …`. */
  letter: string;
  /** Address of the page of the handbook that is about the screen. */
  handbook: string;
  /** The operation without which the screen shows nothing. */
  needs?: Operation;
};

const SCREENS: readonly ScreenLink[] = [
  {
    to: '/$project/$environment/overview',
    label: 'Overview',
    icon: ChartNoAxesColumn,
    letter: 'o',
    handbook: 'stats',
  },
  {
    to: '/$project/$environment/emails',
    label: 'Emails',
    icon: Mail,
    letter: 'e',
    handbook: 'troubleshooting',
  },
  {
    to: '/$project/$environment/test-inbox',
    label: 'Test inbox',
    icon: Inbox,
    letter: 'i',
    handbook: 'sending#test-addresses',
  },
  {
    to: '/$project/$environment/templates',
    label: 'Templates',
    icon: FileText,
    letter: 't',
    handbook: 'templates',
  },
  {
    to: '/$project/$environment/queue',
    label: 'Queue',
    icon: Hourglass,
    letter: 'q',
    handbook: 'queue',
  },
  {
    to: '/$project/$environment/domains',
    label: 'Domains',
    icon: Globe,
    letter: 'd',
    handbook: 'domains',
  },
  {
    to: '/$project/$environment/api-keys',
    label: 'API keys',
    icon: KeyRound,
    letter: 'k',
    handbook: 'api',
    needs: 'listApiKeys',
  },
  {
    to: '/$project/$environment/webhooks',
    label: 'Webhooks',
    icon: Webhook,
    letter: 'w',
    handbook: 'webhooks',
  },
  {
    to: '/$project/$environment/suppressions',
    label: 'Suppressions',
    icon: Ban,
    letter: 's',
    handbook: 'suppressions',
  },
  {
    to: '/$project/$environment/members',
    label: 'Members',
    icon: Users,
    letter: 'm',
    handbook: 'dashboard#members',
  },
  {
    to: '/$project/$environment/audit-log',
    label: 'Audit log',
    icon: ScrollText,
    letter: 'a',
    handbook: 'dashboard#audit-log',
    needs: 'listAuditEvents',
  },
  {
    to: '/$project/$environment/api-log',
    label: 'API log',
    icon: ArrowLeftRight,
    letter: 'l',
    handbook: 'dashboard',
    needs: 'listRequests',
  },
  {
    to: '/$project/$environment/projects',
    label: 'Projects',
    icon: FolderOpen,
    letter: 'p',
    handbook: 'dashboard',
  },
  {
    to: '/$project/$environment/doctor',
    label: 'Doctor',
    icon: Stethoscope,
    letter: 'h',
    handbook: 'doctor',
    needs: 'getDoctor',
  },
  {
    to: '/$project/$environment/settings',
    label: 'Settings',
    icon: Settings,
    letter: ',',
    handbook: 'dashboard#sessions',
  },
];

/** The screens that this member may read. */
export function useScreens(): readonly ScreenLink[] {
  const may = useMay();
  return SCREENS.filter(({ needs }) => needs === undefined || may(needs));
}
