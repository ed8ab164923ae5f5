"""A machine without devices, in the words that the launcher uses."""


class NoDevices:
    def device_name(self):
        return "cpu"

    def device_count(self):
        return 1

    def export_envs(self):
        return []

    def visible_devices_envs(self):
        return ["STAND_IN_VISIBLE_DEVICES"]

    def set_visible_devices_envs(self, environment, devices):
        for name in self.visible_devices_envs():
            environment[name] = ",".join(map(str, devices))


def get_accelerator():
    return NoDevices()
