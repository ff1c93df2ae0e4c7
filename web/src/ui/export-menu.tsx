/** "Export": the formats in which a list is saved as a file, the same beside every list. */
import { Menu } from '@base-ui/react/menu';
import { Download } from 'lucide-react';
import type { ReactNode } from 'react';
import { buttonLook } from './button.tsx';
import { MENU_ITEM, MENU_POPUP } from './more-menu.tsx';

export type ExportFormat = 'csv' | 'json';

const FORMATS: readonly (readonly [ExportFormat, string])[] = [
  ['csv', 'CSV'],
  ['json', 'JSON'],
];

export function ExportMenu(props: {
  onChoose: (format: ExportFormat) => void;
  isDisabled?: boolean;
}): ReactNode {
  const { onChoose, isDisabled = false } = props;
  return (
    <Menu.Root>
      <Menu.Trigger className={buttonLook()} disabled={isDisabled}>
        <Download size={14} aria-hidden className="shrink-0" />
        Export
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-60" align="end" sideOffset={4}>
          <Menu.Popup className={`${MENU_POPUP} min-w-32!`}>
            {FORMATS.map(([format, words]) => (
              <Menu.Item key={format} className={MENU_ITEM} onClick={() => onChoose(format)}>
                {words}
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
